/*
 * What a fault of a restricted task was, and what becomes of the task (hythe_freertos_mpu.h).
 * Called by the handler of faults alone. Calls nothing of the kernel.
 */
#include "hythe_freertos_mpu.h"

#if portUSING_MPU_WRAPPERS

#include <string.h>

/* Registers of Armv7-M: Arm DDI 0403, B3.2. */
#define FAULT_STATUS (*(volatile uint32_t *)0xE000ED28u)
#define HARD_FAULT_STATUS (*(volatile uint32_t *)0xE000ED2Cu)
#define MEMORY_FAULT_ADDRESS (*(volatile uint32_t *)0xE000ED34u)
#define BUS_FAULT_ADDRESS (*(volatile uint32_t *)0xE000ED38u)

/* FAULT_STATUS: instruction, data, and what an exception's entry and return did. */
#define FETCHED 0x0101u
#define ACCESSED_MEMORY 0x0002u
#define ACCESSED_BUS 0x0200u
#define STACKED 0x3838u

/* EXC_RETURN: to a task; and without registers of the FPU. */
#define TO_TASK 0x0Cu
#define TO_TASK_WITHOUT_FPU 0xFFFFFFFDu
#define CONTROL_UNPRIVILEGED 1u
#define EXCEPTION_SVC 11u

/* What an exception's entry saves; where the instruction and the flags stand in it. */
#define FRAME_WORDS 8u
#define FRAME_PC 6u
#define FRAME_FLAGS 7u
#define FLAGS_THUMB (1u << 24)

/*
 * Does the instruction store? It is one that loads or stores, since it failed at that (Arm DDI
 * 0403, A5.2 and A5.3): in those of 32 bits, bit 4 of the first half says, in those of 16 bits with
 * two registers the operation, in the others bit 11.
 */
static int is_store(const volatile uint16_t *pc)
{
    uint32_t half = *pc;

    if (half >= 0xE800u) {
        return (half & 0x10u) == 0;
    }
    if (half >> 12 == 4) {
        return 0;
    }
    return half >> 12 == 5 ? (half >> 9 & 7u) < 3 : (half & 0x800u) == 0;
}

static struct hythe_fault explain(const uint32_t *frame, uint32_t exception)
{
    struct hythe_fault fault = {HYTHE_FAULT_STACK, (uint32_t)frame, 0};
    uint32_t status = FAULT_STATUS;

    if ((status & STACKED) != 0) {
        return fault;
    }
    fault.pc = frame[FRAME_PC];
    fault.address = fault.pc;
    if (exception == EXCEPTION_SVC) {
        fault.kind = HYTHE_FAULT_INSTRUCTION;
        /* The one behind it was saved. */
        fault.pc -= 2;
        fault.address = fault.pc;
    } else if ((status & FETCHED) != 0) {
        fault.kind = HYTHE_FAULT_EXECUTE;
    } else if ((status & (ACCESSED_MEMORY | ACCESSED_BUS)) != 0) {
        fault.kind =
            is_store((const volatile uint16_t *)fault.pc) ? HYTHE_FAULT_WRITE : HYTHE_FAULT_READ;
        fault.address = (status & ACCESSED_MEMORY) != 0 ? MEMORY_FAULT_ADDRESS : BUS_FAULT_ADDRESS;
    } else {
        fault.kind = HYTHE_FAULT_INSTRUCTION;
    }
    return fault;
}

uint32_t hythe_freertos_fault(uint32_t exc_return)
{
    struct hythe_freertos_restricted *restricted = hythe_freertos_restricted_now();
    uint32_t control;
    uint32_t exception;
    uint32_t *frame;
    void *top;

    __asm volatile("mrs %0, control" : "=r"(control));
    __asm volatile("mrs %0, ipsr" : "=r"(exception));
    __asm volatile("mrs %0, psp" : "=r"(frame));
    /* In a system call it has privilege, and is no task that could be stopped. */
    if (restricted == NULL || (exc_return & TO_TASK) != TO_TASK ||
        (control & CONTROL_UNPRIVILEGED) == 0) {
        return 0;
    }
    restricted->fault = explain(frame, exception);
    FAULT_STATUS = UINT32_MAX;
    HARD_FAULT_STATUS = UINT32_MAX;
    /* Its stack pointer may be anything, so it goes on at the top of its stack. */
    top = (uint8_t *)restricted->server.task->config->stack +
          restricted->server.task->config->stack_bytes;
    frame = (uint32_t *)top - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[FRAME_PC] = (uint32_t)hythe_freertos_park & ~1u;
    frame[FRAME_FLAGS] = FLAGS_THUMB;
    __asm volatile("msr psp, %0" ::"r"(frame) : "memory");
    return TO_TASK_WITHOUT_FPU;
}

#else
/* C asks for something to be here. */
typedef int hythe_faults_need_an_mpu;
#endif
