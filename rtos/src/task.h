/* Inside of the registered tasks: how task.c, held.c and service.c share their work. */
#ifndef HYTHE_TASK_PRIVATE_H
#define HYTHE_TASK_PRIVATE_H

#include "hythe_task.h"

/* Of struct hythe_task. */
enum {
    TASK_STOPPED = 0,
    /* It is made, and has not run its first instruction. */
    TASK_STARTING = 1,
    TASK_RUNNING = 2,
    /* It has returned, and is to be ended. */
    TASK_RETURNED = 3,
    TASK_KILLED = 4,
    TASK_FAULTED = 5
};

/* May it run now? */
static inline int hythe_task_lives(const struct hythe_task *task)
{
    return task->state >= TASK_STARTING && task->state <= TASK_RETURNED;
}

/* ---- task.c; the service task only ---- */

/*
 * Makes it run with this argument. 0: the platform could not make it, or the agent cannot be told
 * yet that it had ended before.
 */
int hythe_task_begin(struct hythe_task *task, const volatile uint8_t *argument, uint32_t bytes);

/* Ends a task that lives, and takes back what it has. `state` is what it is then. */
void hythe_task_end(struct hythe_task *task, uint32_t state);

/*
 * Ends those that have returned, and those that the processor has stopped; tells the agent which
 * have ended since the last call. Before each request.
 */
void hythe_tasks_reap(struct hythe_tasks *tasks);

/* ---- held.c ---- */

/* Records from now on which registered task has what of the link. */
void hythe_held_start(struct hythe_tasks *tasks);

/* Gives back the buffers of a task that runs no more; returns how many. */
uint32_t hythe_held_release(const struct hythe_task *task);

/* How many buffers it has now. */
uint32_t hythe_held_count(const struct hythe_task *task);

#endif
