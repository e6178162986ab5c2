/*
 * Restricted tasks on a port of FreeRTOS with the MPU of Armv7-M (ARM_CM4_MPU), with
 * configENABLE_ACCESS_CONTROL_LIST on. On other ports all tasks may do what the program may, and
 * hythe_tasks_start() refuses those that are restricted.
 *
 * The MPU knows blocks of a power of two from 32 bytes on, aligned to their size, and has three of
 * them for a task beside its stack. What is granted is cut into such blocks: slots of 8 + 2 MiB are
 * two, a segment of 64 KiB at an address that 64 KiB divides is one, one of 12 KiB two. A task for
 * whose grants three are too few cannot be started.
 */
#ifndef HYTHE_FREERTOS_MPU_H
#define HYTHE_FREERTOS_MPU_H

#include "hythe_freertos_task.h"
#include "hythe_gate_call.h"

#if portUSING_MPU_WRAPPERS
#include "queue.h"

/* For the library's deepest call, with the gate's own frames and an interrupt's. */
#define HYTHE_GATE_STACK_WORDS 512u

/*
 * `memory` of a restricted task's configuration, in memory that no task was granted. Its `stack`
 * has a size that is a power of two, and is aligned to that. Private.
 */
struct hythe_freertos_restricted {
    /* First, so that the kernel's handle of the task is the address of this. */
    StaticTask_t client_memory;
    StackType_t gate_stack[HYTHE_GATE_STACK_WORDS] __attribute__((aligned(8)));
    StaticTask_t gate_memory;
    StaticQueue_t queue_memory;
    uint8_t queue_storage[sizeof(uintptr_t)];
    TaskHandle_t client;
    TaskHandle_t gate;
    QueueHandle_t queue;
    /* The address of the first call, which says that the task runs. */
    uintptr_t first_call;
    struct hythe_gate_server server;
    /* Written by the fault's handler. */
    volatile struct hythe_fault fault;
    struct hythe_freertos_restricted *next;
};

/*
 * For the handler of a HardFault, with EXC_RETURN as it was entered with, and no more pushed on its
 * stack that it would need: stops the restricted task that was interrupted, and returns the
 * EXC_RETURN with which the handler is to return; 0: it was no restricted task. All faults must
 * come there (SHCSR: none of the others enabled), since no handler of the kernel is more urgent
 * than that: none of them then sees registers that could not be saved.
 */
uint32_t hythe_freertos_fault(uint32_t exc_return);

/* ---- Private: between hythe_freertos_mpu.c and hythe_freertos_fault.c ---- */

/* The restricted task that has the processor, or was interrupted; NULL: another one. */
struct hythe_freertos_restricted *hythe_freertos_restricted_now(void);

/* Where a task goes on that has ended, or was stopped: until the service task deletes it. */
void hythe_freertos_park(void);
#endif

/* As hythe_freertos_task_start(), with restricted tasks where the port can restrict them. */
void hythe_freertos_mpu_start(struct hythe_freertos *freertos, struct hythe_port_task *port);

#endif
