/*
 * Port for FreeRTOS: each task sleeps on a task notification of its own, the doorbell's interrupt
 * notifies all of them, the lock is a mutex with priority inheritance. Caches are taken to be
 * coherent; a board whose are not sets `clean` and `invalidate` after hythe_freertos_start().
 *
 * Uses notification index HYTHE_FREERTOS_NOTIFY_INDEX of every task that calls a blocking function
 * of the library; the program must leave it alone. Needs configUSE_MUTEXES and
 * configSUPPORT_STATIC_ALLOCATION.
 */
#ifndef HYTHE_FREERTOS_H
#define HYTHE_FREERTOS_H

#include "FreeRTOS.h"
#include "semphr.h"
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
    SemaphoreHandle_t mutex;
    StaticSemaphore_t mutex_storage;
    /* Written by tasks inside a critical section, read by the interrupt. */
    TaskHandle_t tasks[HYTHE_FREERTOS_MAX_TASKS];
    volatile UBaseType_t task_count;
};

/*
 * Fills `port`. `ring` wakes Linux and must not block. Call before or after the scheduler starts.
 * 0, or -1: no mutex.
 */
int hythe_freertos_start(struct hythe_freertos *freertos, void (*ring)(void),
                         struct hythe_port *port);

/*
 * Call from the doorbell's interrupt, after clearing it at the device; its priority must allow
 * FreeRTOS calls. Returns pdTRUE if a switch is due: pass it to portYIELD_FROM_ISR().
 */
BaseType_t hythe_freertos_bell_from_isr(struct hythe_freertos *freertos);

#endif
