/*
 * The registered tasks: their begin, their end, and what is taken back then. Called by the service
 * task (service.c), but for hythe_task_main(), which is each task. Never ends the caller.
 */
#include "task.h"

#include "hythe_atomic.h"
#include "hythe_services.h"
#include "link.h"
#include "shared.h"

static int is_name(const char *name)
{
    return name != NULL && name[0] != '\0' && hythe_name_bytes(name) <= HYTHE_TASK_NAME_BYTES;
}

static int is_valid(const struct hythe_tasks_config *config)
{
    uint32_t i;

    if (config->link == NULL || config->port == NULL || config->configs == NULL ||
        config->tasks == NULL || (config->held == NULL && config->held_count != 0) ||
        (config->clients == NULL && config->client_count != 0)) {
        return 0;
    }
    for (i = 0; i < config->count; i++) {
        if (!is_name(config->configs[i].name) || config->configs[i].run == NULL ||
            (config->configs[i].restriction != NULL && config->port->fault == NULL)) {
            return 0;
        }
    }
    return 1;
}

static void prepare(struct hythe_tasks *tasks, uint32_t index)
{
    static const struct hythe_task nothing = {0};
    struct hythe_task *task = &tasks->config.tasks[index];

    *task = nothing;
    task->config = &tasks->config.configs[index];
    task->tasks = tasks;
    task->stack_free = HYTHE_STACK_UNKNOWN;
}

int hythe_tasks_start(struct hythe_tasks *tasks, const struct hythe_tasks_config *config)
{
    uint32_t i;

    if (tasks == NULL || config == NULL || !is_valid(config)) {
        return HYTHE_E_ARGUMENT;
    }
    tasks->config = *config;
    for (i = 0; i < config->count; i++) {
        prepare(tasks, i);
    }
    hythe_held_start(tasks);
    for (i = 0; i < config->count; i++) {
        if ((config->configs[i].flags & HYTHE_TASK_AT_START) != 0 &&
            !hythe_task_begin(&config->tasks[i], NULL, 0)) {
            return HYTHE_E_ARGUMENT;
        }
    }
    return HYTHE_OK;
}

int hythe_task_should_stop(const struct hythe_task *task)
{
    return hythe_load_relaxed(&task->asked_to_stop) != 0;
}

void hythe_task_main(struct hythe_task *task)
{
    hythe_store_release(&task->state, TASK_RUNNING);
    task->config->run(task);
    hythe_store_release(&task->state, TASK_RETURNED);
}

int hythe_task_begin(struct hythe_task *task, const volatile uint8_t *argument, uint32_t bytes)
{
    const struct hythe_port_task *port = task->tasks->config.port;
    uint32_t i;

    if (task->untold) {
        return 0;
    }
    for (i = 0; i < bytes; i++) {
        task->argument[i] = (char)argument[i];
    }
    task->argument[bytes] = '\0';
    task->argument_bytes = bytes;
    task->asked_to_stop = 0;
    task->fault.kind = HYTHE_FAULT_NONE;
    task->state = TASK_STARTING;
    task->identity = port->create(port->context, task);
    if (task->identity == NULL) {
        task->state = TASK_STOPPED;
        return 0;
    }
    task->starts++;
    return 1;
}

/* It will not say that it woke. */
static void wake(struct hythe_task *task)
{
    struct hythe_link *link = task->tasks->config.link;

    if (task->sleeps == 0) {
        return;
    }
    hythe_link_lock(link);
    task->sleeps = 0;
    link->sleepers--;
    if (link->state == HYTHE_STATE_UP) {
        hythe_link_write_bell_wanted(link);
    }
    hythe_link_unlock(link);
}

/*
 * Takes back what a task has that runs no more, in this order: its sleep, since nothing else may
 * ring for it; its buffers, also those of requests that are not sent; then its open requests, whose
 * replies nobody waits for. What the agent has for it follows, when the agent is told.
 */
static void settle(struct hythe_task *task)
{
    const struct hythe_tasks_config *config = &task->tasks->config;
    uint32_t i;

    wake(task);
    task->buffers_returned += hythe_held_release(task);
    for (i = 0; i < config->client_count; i++) {
        task->requests_forgotten += config->clients[i]->forget_of(config->clients[i], task);
    }
    task->untold = config->services != NULL;
}

void hythe_task_end(struct hythe_task *task, uint32_t state)
{
    const struct hythe_port_task *port = task->tasks->config.port;

    task->stack_free = port->stack_free(port->context, task->identity);
    task->run_time_us += port->run_time_us(port->context, task->identity);
    port->kill(port->context, task->identity);
    /* No call of the library is its own from here on. */
    task->identity = NULL;
    task->state = state;
    settle(task);
}

static int has_faulted(struct hythe_task *task)
{
    const struct hythe_port_task *port = task->tasks->config.port;

    if (task->config->restriction == NULL || !hythe_task_lives(task) ||
        !port->fault(port->context, task->identity, &task->fault)) {
        return 0;
    }
    task->fault_untold = task->fault;
    return 1;
}

void hythe_tasks_reap(struct hythe_tasks *tasks)
{
    struct hythe_services *services = tasks->config.services;
    uint32_t i;

    for (i = 0; i < tasks->config.count; i++) {
        struct hythe_task *task = &tasks->config.tasks[i];
        if (hythe_load_acquire(&task->state) == TASK_RETURNED) {
            hythe_task_end(task, TASK_STOPPED);
        } else if (has_faulted(task)) {
            hythe_task_end(task, TASK_FAULTED);
        }
        if (task->untold && services->task_ended(services, i + 1)) {
            task->untold = 0;
        }
    }
}
