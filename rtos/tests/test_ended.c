/* A task that has ended: the agent is told, as soon as it can be, and knows tasks by number. */
#include <string.h>

#include "agent.h"
#include "hythe_sem.h"
#include "task.h"
#include "tasks.h"
#include "test.h"

/* OUT of the tasks' world asks the agent. */
struct ended {
    struct tasks tasks;
    struct hythe_services services;
    struct hythe_open_request open[OPEN_MAX];
};

static void make(struct ended *ended)
{
    struct hythe_services_config config = {.requests = ended->open, .request_count = OPEN_MAX};

    tasks_make(&ended->tasks);
    config.endpoint = world_endpoint(&ended->tasks.world, OUT);
    CHECK_EQUAL(hythe_services_start(&ended->services, &config), 0);
    CHECK(ended->services.messages.endpoint == NULL);
    ended->tasks.tasks.config.services = &ended->services;
    ended->tasks.self = TASK_SERVICE;
    ended->tasks.runs = 1;
    memset(&agent, 0, sizeof agent);
    agent.kind = REPLY;
}

static void give_slot(struct ended *ended)
{
    struct world *world = &ended->tasks.world;
    struct descriptor empty = linux_slot(&world->side, 0, 5, WORLD_SLOT_BYTES - 256);

    empty.references = 1;
    linux_push(&world->side, LINUX_FLOW(OUT, 0), empty);
}

static void the_agent_is_told_which_task_has_ended(void)
{
    static struct ended ended;
    struct hythe_task *task = &ended.tasks.memory[TASK_B];

    make(&ended);
    CHECK(hythe_task_begin(task, NULL, 0));
    hythe_task_end(task, TASK_KILLED);
    give_slot(&ended);
    hythe_tasks_reap(&ended.tasks.tasks);
    agent_answer(&ended.tasks.world);
    CHECK_EQUAL(agent.told_count, 1);
    CHECK_EQUAL(agent.told[HYTHE_CALL_METHOD], HYTHE_METHOD_TASK_ENDED);
    CHECK_EQUAL(agent.told[HYTHE_CALL_ARGUMENT], TASK_B + 1);
    /* Once. */
    give_slot(&ended);
    hythe_tasks_reap(&ended.tasks.tasks);
    agent_answer(&ended.tasks.world);
    CHECK_EQUAL(agent.told_count, 1);
    CHECK_EQUAL(world_counters(&ended.tasks.world, OUT).violations, 0);
    world_free(&ended.tasks.world);
}

static void a_task_is_not_started_again_before(void)
{
    static struct ended ended;
    struct hythe_task *task = &ended.tasks.memory[TASK_B];

    make(&ended);
    CHECK(hythe_task_begin(task, NULL, 0));
    /* It returns. The agent has given no slot. */
    task->state = TASK_RETURNED;
    hythe_tasks_reap(&ended.tasks.tasks);
    CHECK_EQUAL(task->state, TASK_STOPPED);
    CHECK(!hythe_task_begin(task, NULL, 0));
    /* The service task and this one. */
    CHECK_EQUAL(ended.tasks.creates, 2);
    give_slot(&ended);
    hythe_tasks_reap(&ended.tasks.tasks);
    agent_answer(&ended.tasks.world);
    CHECK_EQUAL(agent.told_count, 1);
    CHECK(hythe_task_begin(task, NULL, 0));
    hythe_task_end(task, TASK_KILLED);
    /* Without an agent there is nothing to tell. */
    linux_detach(&ended.tasks.world.side, LINUX_FLOW(OUT, 0));
    hythe_tasks_reap(&ended.tasks.tasks);
    CHECK(hythe_task_begin(task, NULL, 0));
    world_free(&ended.tasks.world);
}

static void a_call_says_which_task_it_is_of(void)
{
    static const uint32_t numbers[] = {TASK_A + 1, 0};
    static const uint32_t tasks[] = {TASK_A, TASKS};
    static struct ended ended;
    struct hythe_sem sem;
    uint32_t i;

    make(&ended);
    CHECK(hythe_task_begin(&ended.tasks.memory[TASK_A], NULL, 0));
    sem.object.services = &ended.services;
    sem.object.handle = 3;
    for (i = 0; i < 2; i++) {
        agent.left = 1;
        ended.tasks.self = tasks[i];
        ended.tasks.world.during_wait = agent_answer;
        give_slot(&ended);
        CHECK_EQUAL(hythe_sem_post(&sem), 0);
        CHECK_EQUAL(agent.came[0][HYTHE_CALL_TASK], numbers[i]);
    }
    world_free(&ended.tasks.world);
}

void test_ended(void)
{
    RUN(the_agent_is_told_which_task_has_ended);
    RUN(a_task_is_not_started_again_before);
    RUN(a_call_says_which_task_it_is_of);
}
