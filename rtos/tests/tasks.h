/*
 * Registered tasks in one thread, for unit tests: the test says which of them calls the library,
 * and the platform notes what it was asked for. A task can be killed in the middle of a call: at
 * any unlock, which is where another task may take over.
 */
#ifndef TASKS_H
#define TASKS_H

#include <setjmp.h>

#include "hythe_task.h"
#include "world.h"

enum {
    /* It always lives. */
    TASK_SERVICE = 0,
    TASK_A = 1,
    TASK_B = 2,
    /* Has the name of B. */
    TASK_B2 = 3,
    TASKS = 4,
    TASKS_HELD = 6,
    TASKS_OPEN = 4,
    TASKS_SEGMENTS_BYTES = 2 * 4096
};

struct tasks {
    /* First: the port's context. */
    struct world world;
    struct hythe_port_task port;
    struct hythe_tasks tasks;
    struct hythe_task_config configs[TASKS];
    struct hythe_task memory[TASKS];
    struct hythe_held held[TASKS_HELD];
    struct hythe_client client;
    struct hythe_client *clients[1];
    struct hythe_open_request open[TASKS_OPEN];
    struct hythe_service service;

    /* Which task calls the library: a number from above; TASKS: one that is not registered. */
    uint32_t self;
    uint32_t creates;
    uint32_t kills;
    /* A task that is made runs at the next wait of its maker, if set; else never. */
    int runs;
    /* The platform makes none. */
    int refuses;
    /* What a segment was wanted for last: key, size, flags, time-out; and what is returned. */
    uint32_t wanted[4];
    int made;
    /* In so many unlocks the task is killed; 0: never. */
    uint32_t unlocks_left;
    jmp_buf killed;
};

/* Endpoints: IN takes requests for control, OUT asks, IN2 and OUT2 are those of the world. */
void tasks_make(struct tasks *tasks);

/*
 * Calls `act` as a task that is killed at unlock number `unlock`. 1: it was. 0: it came to its end
 * before.
 */
int tasks_kill_at(struct tasks *tasks, uint32_t task, uint32_t unlock,
                  void (*act)(struct tasks *tasks));

/* Nothing of the library is the task's any more. */
void tasks_expect_nothing_of(struct tasks *tasks, uint32_t task);

#endif
