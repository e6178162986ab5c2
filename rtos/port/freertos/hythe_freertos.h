/*
 * Port for FreeRTOS: each task sleeps on a task notification of its own, the doorbell's interrupt
 * notifies all of them. The lock suspends the scheduler, as the kernel's own heaps do: a mutex
 * costs more than what the library does under it. So a task of higher priority waits for one step
 * of the library at most; interrupts do not. That is some hundred instructions, and where Linux
 * fills its queues with entries that are refused, as much for each: one look takes no more of them
 * than the queues of the endpoint hold. Caches are taken to be coherent; a board whose are not sets
 * `clean` and `invalidate` after hythe_freertos_start(). A program in which one task has the link
 * sets `lock` and `unlock` to NULL.
 *
 * Uses notification index HYTHE_FREERTOS_NOTIFY_INDEX of every task that calls a blocking function
 * of the library; the program must leave it alone.
 */
#ifndef HYTHE_FREERTOS_H
#define HYTHE_FREERTOS_H

#include "FreeRTOS.h"
#include "task.h"

#include "hythe_port.h"

/*
 * Most tasks that may ever block in the library; a further task polls with every slice instead of
 * being woken.
 */
#ifndef HYTHE_FREERTOS_MAX_TASKS
#define HYTHE_FREERTOS_MAX_TASKS 8
#endif

#ifndef HYTHE_FREERTOS_NOTIFY_INDEX
#define HYTHE_FREERTOS_NOTIFY_INDEX 0
#endif

/* Caller-owned; must outlive the link. */
struct hythe_freertos {
    void (*ring)(void);
    /* Written by tasks inside a critical section, read by the interrupt. NULL: one has left. */
    TaskHandle_t tasks[HYTHE_FREERTOS_MAX_TASKS];
    volatile UBaseType_t task_count;
};

/*
 * Fills `port`. `ring` wakes Linux and must not block. Call before or after the scheduler starts.
 */
void hythe_freertos_start(struct hythe_freertos *freertos, void (*ring)(void),
                          struct hythe_port *port);

/*
 * The bell does not notify this task any more. Before it is deleted: a task that may be must be
 * known as one that left. From any task.
 */
void hythe_freertos_leave(struct hythe_freertos *freertos, TaskHandle_t task);

/*
 * Call from the doorbell's interrupt, after clearing it at the device; its priority must allow
 * FreeRTOS calls. Returns pdTRUE if a switch is due: pass it to portYIELD_FROM_ISR().
 */
BaseType_t hythe_freertos_bell_from_isr(struct hythe_freertos *freertos);

#endif
