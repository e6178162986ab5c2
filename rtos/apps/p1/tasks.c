/*
 * The registered tasks. Between two rounds none has anything but what README.md says that it holds:
 * each may be killed anywhere.
 */
#include "tasks.h"

#include <string.h>

#include "FreeRTOS.h"
#include "task.h"

#include "guest.h"
#include "hythe_freertos_mpu.h"
#include "methods.h"

/* Bounds each wait of a task, so that it hears soon that it is to stop. */
#define WAIT_MS 20u
/* Of the service task: what a task that returned had comes back so soon. */
#define SERVICE_MS 50u

/* What `spinner` holds. */
#define SPINNER_BUFFERS 3u

#define STACK_WORDS (4u * 1024u / sizeof(StackType_t))
#define PRIORITY_LOWEST 1
#define PRIORITY_WORK 2
#define PRIORITY_SERVICE (configMAX_PRIORITIES - 1)

enum {
    TASK_SERVICE = 0,
    TASK_METHODS = 1,
    TASK_ECHO = 2,
    TASK_ECHO_2 = 3,
    TASK_ECHO_3 = 4,
    TASK_COUNTER = 5,
    TASK_SPINNER = 6,
    TASK_WORKER = 7,
    WORKERS = 4,
    TASKS_OWN = TASK_WORKER + WORKERS,
    TASKS = TASKS_OWN + GUESTS
};

/* Those that all tasks may have between two calls, and what 16 held calls have. */
#define HELD_MAX 32

static struct hythe_port_task port;
static struct hythe_tasks tasks;
static struct hythe_task task_memory[TASKS];
static struct hythe_task_config configs[TASKS];
static struct hythe_held held[HELD_MAX];
static struct hythe_client *clients[3];
static struct hythe_service service;
static struct hythe_services *services;
static StackType_t stacks[TASKS_OWN][STACK_WORDS];
static StaticTask_t kernel_memory[TASKS_OWN];

static void run_service(struct hythe_task *task)
{
    for (;;) {
        (void)hythe_service_run(task->config->context, SERVICE_MS);
#if GUESTS
        hythe_tasks_tell_faults(&tasks, services);
#endif
    }
}

static void run_methods(struct hythe_task *task)
{
    methods_run(task->config->context);
}

static void run_echo(struct hythe_task *task)
{
    const struct work *work = task->config->context;
    struct hythe_buffer buffer;

    while (!hythe_task_should_stop(task)) {
        if (hythe_receive(work->ping, &buffer, WAIT_MS) != HYTHE_OK) {
            continue;
        }
        /* Whoever pings without listening for the pong gets the buffer back unread. */
        if (hythe_forward(&buffer, work->pong, WAIT_MS) < 0) {
            (void)hythe_release(&buffer);
        }
    }
}

/* A number that is raised, and the argument behind it. */
static int publish_count(const struct hythe_task *task, uint32_t number)
{
    const struct work *work = task->config->context;
    struct hythe_buffer buffer;
    uint32_t bytes = sizeof number + task->argument_bytes;

    if (hythe_lease(work->count, &buffer, WAIT_MS) != HYTHE_OK) {
        return 0;
    }
    memcpy(buffer.data, &number, sizeof number);
    memcpy(buffer.data + sizeof number, task->argument, task->argument_bytes);
    if (hythe_publish(&buffer, bytes, WAIT_MS) < 0) {
        (void)hythe_release(&buffer);
    }
    return 1;
}

static void run_counter(struct hythe_task *task)
{
    uint32_t number = 0;

    while (!hythe_task_should_stop(task)) {
        number += (uint32_t)publish_count(task, number);
        vTaskDelay(1);
    }
}

/* A request that nobody waits for. */
static void ask(struct hythe_client *client)
{
    struct hythe_buffer buffer;
    uint64_t number;

    if (hythe_request_lease(client, &buffer, WAIT_MS) == HYTHE_OK &&
        hythe_request_send(client, &buffer, 0, &number) != HYTHE_OK && buffer.endpoint != NULL) {
        (void)hythe_release(&buffer);
    }
}

/* Takes what it can get, and never looks whether it is to stop. */
static void run_spinner(struct hythe_task *task)
{
    const struct work *work = task->config->context;
    struct hythe_buffer buffers[SPINNER_BUFFERS];
    volatile uint32_t turns = 0;
    uint32_t i;

    for (i = 0; i < SPINNER_BUFFERS; i++) {
        (void)hythe_lease(work->count, &buffers[i], WAIT_MS);
    }
    ask(work->client);
    for (;;) {
        turns++;
    }
}

static void add(uint32_t number, const char *name, void (*run)(struct hythe_task *), void *context,
                uint32_t priority, uint32_t flags)
{
    const struct hythe_task_config config = {
        .name = name,
        .run = run,
        .context = context,
        .stack = stacks[number],
        .stack_bytes = sizeof stacks[number],
        .priority = priority,
        .flags = flags,
        .memory = &kernel_memory[number],
    };

    configs[number] = config;
}

int tasks_start(struct hythe_link *link, struct hythe_freertos *freertos, struct work *work,
                void *methods, struct hythe_endpoint *control)
{
    const struct hythe_tasks_config config = {
        .link = link,
        .port = &port,
        .configs = configs,
        .tasks = task_memory,
        .count = TASKS,
        .held = held,
        .held_count = HELD_MAX,
        .clients = clients,
        .client_count = 3,
        .services = &work->segments->services,
    };
    const struct hythe_service_config served = {
        .tasks = &tasks,
        .endpoint = control,
        .segments = work->segments->services.segments,
        .segments_bytes = work->segments->services.segments_bytes,
        .make_segment = segments_make,
        .context = work->segments,
    };
    uint32_t i;
    int result;

    clients[0] = work->client;
    services = &work->segments->services;
    clients[1] = &services->client;
    clients[2] = &services->messages;
    hythe_freertos_mpu_start(freertos, &port);
    add(TASK_SERVICE, "service", run_service, &service, PRIORITY_SERVICE,
        HYTHE_TASK_AT_START | HYTHE_TASK_PERMANENT);
    add(TASK_METHODS, "methods", run_methods, methods, PRIORITY_WORK,
        HYTHE_TASK_AT_START | HYTHE_TASK_PERMANENT);
    add(TASK_ECHO, "echo", run_echo, work, PRIORITY_WORK, HYTHE_TASK_AT_START);
    add(TASK_ECHO_2, "echo", run_echo, work, PRIORITY_WORK, HYTHE_TASK_AT_START);
    add(TASK_ECHO_3, "echo", run_echo, work, PRIORITY_WORK, HYTHE_TASK_AT_START);
    add(TASK_COUNTER, "counter", run_counter, work, PRIORITY_WORK, 0);
    add(TASK_SPINNER, "spinner", run_spinner, work, PRIORITY_LOWEST, 0);
    for (i = 0; i < WORKERS; i++) {
        add(TASK_WORKER + i, "worker", objects_run_worker, work->objects, PRIORITY_WORK, 0);
    }
    guests_configure(configs + TASKS_OWN, work, work->segments);
    result = hythe_service_start(&service, &served);
    return result == HYTHE_OK ? hythe_tasks_start(&tasks, &config) : result;
}
