/* The fixture of the tests of registered tasks. */
#include "tasks.h"

#include <string.h>

#include "task.h"
#include "test.h"

static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"control", HYTHE_TO_CORE, HYTHE_CONTROL_BYTES, 0, 0, HYTHE_KIND_REQUESTS},
    {"asks", HYTHE_FROM_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {"in2", HYTHE_TO_CORE, 3840, 0, 0, HYTHE_KIND_MESSAGES},
    {"out2", HYTHE_FROM_CORE, 3840, 0, 0, HYTHE_KIND_MESSAGES},
};

static const void *create(void *context, struct hythe_task *task)
{
    struct tasks *tasks = context;

    tasks->creates++;
    return tasks->refuses ? NULL : task->config->memory;
}

static void kill(void *context, const void *identity)
{
    struct tasks *tasks = context;

    CHECK(identity != NULL);
    CHECK(!tasks->world.locked);
    tasks->kills++;
}

static uint32_t state(void *context, const void *identity)
{
    (void)context;
    CHECK(identity != NULL);
    return HYTHE_PORT_TASK_BLOCKED;
}

static uint32_t stack_free(void *context, const void *identity)
{
    (void)context;
    CHECK(identity != NULL);
    return 100;
}

static uint64_t run_time_us(void *context, const void *identity)
{
    (void)context;
    CHECK(identity != NULL);
    return 5000000000u;
}

static const void *self(void *context)
{
    const struct tasks *tasks = context;

    /* Any place will do, if it is that task's alone. */
    return tasks->self < TASKS ? (const void *)&tasks->configs[tasks->self] : tasks;
}

static void unlock(void *context)
{
    struct tasks *tasks = context;

    CHECK(tasks->world.locked);
    tasks->world.locked = 0;
    if (tasks->unlocks_left != 0 && --tasks->unlocks_left == 0) {
        longjmp(tasks->killed, 1);
    }
}

/* What was made begins to run. */
static void run_those_made(struct world *world)
{
    struct tasks *tasks = (struct tasks *)(void *)world;
    uint32_t i;

    for (i = 0; i < TASKS; i++) {
        if (tasks->runs && tasks->memory[i].state == TASK_STARTING) {
            tasks->memory[i].state = TASK_RUNNING;
        }
    }
}

static void run(struct hythe_task *task)
{
    (void)task;
}

/* Notes what it was asked for. */
static int make_segment(void *context, int32_t key, uint32_t size, uint32_t flags,
                        uint32_t timeout_ms)
{
    struct tasks *tasks = context;
    const uint32_t words[4] = {(uint32_t)key, size, flags, timeout_ms};

    memcpy(tasks->wanted, words, sizeof words);
    return tasks->made;
}

static void configure(struct tasks *tasks, uint32_t number, const char *name, uint32_t flags)
{
    struct hythe_task_config *config = &tasks->configs[number];

    config->name = name;
    config->run = run;
    config->stack_bytes = 1000 + number;
    config->priority = number == TASK_SERVICE ? 4 : 2;
    config->flags = flags;
    config->memory = config;
}

void tasks_make(struct tasks *tasks)
{
    const struct hythe_tasks_config config = {
        &tasks->world.link,
        &tasks->port,
        tasks->configs,
        tasks->memory,
        TASKS,
        tasks->held,
        TASKS_HELD,
        tasks->clients,
        1,
        NULL,
    };
    struct hythe_service_config served;
    struct world *world = &tasks->world;
    uint32_t endpoint;

    memset(tasks, 0, sizeof *tasks);
    world_make(world);
    world->config.endpoints = ENDPOINTS;
    world->port.unlock = unlock;
    world->during_wait = run_those_made;
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    tasks->clients[0] = &tasks->client;
    CHECK_EQUAL(
        hythe_client_start(&tasks->client, world_endpoint(world, OUT), tasks->open, TASKS_OPEN),
        HYTHE_OK);
    tasks->port = (struct hythe_port_task){
        tasks, create, kill, state, stack_free, run_time_us, self, NULL,
    };
    tasks->runs = 1;
    configure(tasks, TASK_SERVICE, "service", HYTHE_TASK_AT_START | HYTHE_TASK_PERMANENT);
    configure(tasks, TASK_A, "a", 0);
    configure(tasks, TASK_B, "twin", 0);
    configure(tasks, TASK_B2, "twin", 0);
    CHECK_EQUAL(hythe_tasks_start(&tasks->tasks, &config), HYTHE_OK);
    tasks->memory[TASK_SERVICE].state = TASK_RUNNING;
    served = (struct hythe_service_config){
        .tasks = &tasks->tasks,
        .endpoint = world_endpoint(world, IN),
        .segments = world->region_memory,
        .segments_bytes = TASKS_SEGMENTS_BYTES,
        .make_segment = make_segment,
        .context = tasks,
    };
    CHECK_EQUAL(hythe_service_start(&tasks->service, &served), HYTHE_OK);
    for (endpoint = 0; endpoint < WORLD_ENDPOINTS; endpoint++) {
        world_attach(world, LINUX_FLOW(endpoint, 0));
    }
}

int tasks_kill_at(struct tasks *tasks, uint32_t task, uint32_t unlock_number,
                  void (*act)(struct tasks *tasks))
{
    volatile int killed = 1;

    if (!hythe_task_lives(&tasks->memory[task])) {
        CHECK(hythe_task_begin(&tasks->memory[task], NULL, 0));
        tasks->memory[task].state = TASK_RUNNING;
    }
    tasks->self = task;
    tasks->unlocks_left = unlock_number;
    if (setjmp(tasks->killed) == 0) {
        act(tasks);
        killed = 0;
    }
    tasks->unlocks_left = 0;
    tasks->self = TASK_SERVICE;
    hythe_task_end(&tasks->memory[task], TASK_KILLED);
    return killed;
}

void tasks_expect_nothing_of(struct tasks *tasks, uint32_t task)
{
    uint32_t i;

    CHECK_EQUAL(hythe_held_count(&tasks->memory[task]), 0);
    CHECK_EQUAL(tasks->memory[task].sleeps, 0);
    CHECK_EQUAL(tasks->world.link.sleepers, 0);
    for (i = 0; i < TASKS_OPEN; i++) {
        CHECK(tasks->open[i].number == 0 || tasks->open[i].owner != &tasks->memory[task]);
    }
}
