/*
 * What hythe_task.h needs from the platform: to make, end and look at tasks. Beside hythe_port.h,
 * so that programs without tasks that can be killed need none of it.
 *
 * Filled by rtos/port/freertos or by your own code. Called by the service task only, but for
 * `self`, which any task calls. The functions get `context` back.
 */
#ifndef HYTHE_PORT_TASK_H
#define HYTHE_PORT_TASK_H

#include <stdint.h>

struct hythe_task;

/* Of a task that has begun to run. */
enum hythe_port_task_state {
    HYTHE_PORT_TASK_RUNNING = 0,
    HYTHE_PORT_TASK_READY = 1,
    HYTHE_PORT_TASK_BLOCKED = 2
};

/* Why the processor stopped a restricted task. */
enum hythe_fault_kind {
    HYTHE_FAULT_NONE = 0,
    /* It read or wrote where it may not; `address` is where. */
    HYTHE_FAULT_READ = 1,
    HYTHE_FAULT_WRITE = 2,
    /* It went on where there is no code for it. */
    HYTHE_FAULT_EXECUTE = 3,
    /* An interrupt found no stack to save its registers on; `address` is its stack pointer. */
    HYTHE_FAULT_STACK = 4,
    /* An instruction that makes no sense, or that it may not use. */
    HYTHE_FAULT_INSTRUCTION = 5
};

struct hythe_fault {
    /* enum hythe_fault_kind */
    uint32_t kind;
    uint32_t address;
    /* The instruction; 0: not known. */
    uint32_t pc;
};

/* `stack_free` where nobody can tell. */
#define HYTHE_STACK_UNKNOWN 0xFFFFFFFFu

struct hythe_port_task {
    void *context;

    /*
     * Makes a task of task->config, which calls hythe_task_main(task) and then waits for its end.
     * Returns what `self` says in it, NULL if it could not be made.
     */
    const void *(*create)(void *context, struct hythe_task *task);

    /*
     * Ends it, wherever it is: it never runs again, no bell wakes it, and its stack is free. The
     * caller is of higher priority, so it is not inside the lock of hythe_port.h.
     */
    void (*kill)(void *context, const void *identity);

    /* enum hythe_port_task_state */
    uint32_t (*state)(void *context, const void *identity);

    /* Bytes of its stack that it has never used. */
    uint32_t (*stack_free)(void *context, const void *identity);

    /* Microseconds that it has run since it was made; 0 where nobody counts. */
    uint64_t (*run_time_us)(void *context, const void *identity);

    /* The calling task. Any task, under the lock; never blocks. */
    const void *(*self)(void *context);

    /*
     * 1: the processor has stopped this task, and `fault` says why; it runs no more, and is still
     * to be ended by `kill`. NULL: the platform cannot restrict tasks.
     */
    int (*fault)(void *context, const void *identity, struct hythe_fault *fault);
};

#endif
