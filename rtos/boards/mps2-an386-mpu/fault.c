/*
 * Faults and system calls. A fault of a restricted task stops that task; any other one is our own
 * error, and ends this core.
 */
#include "hythe_freertos_mpu.h"

#include "board.h"

void Fault_Handler(void);
void SVC_Handler(void);
void Kernel_SVC_Handler(void);

__attribute__((used)) static void fail(void)
{
    board_fail("fault", 0);
}

/* Returns to where the port says; nothing is pushed before that. */
__attribute__((naked)) void Fault_Handler(void)
{
    __asm volatile("mov r0, lr\n\t"
                   "bl hythe_freertos_fault\n\t"
                   "cbz r0, 1f\n\t"
                   "bx r0\n"
                   "1: b fail");
}

/*
 * The kernel starts its first task by a system call, and would do so again for any task: one of a
 * task without privilege is a fault. All others the kernel checks itself.
 */
__attribute__((naked)) void SVC_Handler(void)
{
    __asm volatile("mrs r0, control\n\t"
                   "lsls r0, r0, #31\n\t"
                   "beq 1f\n\t"
                   "mrs r0, psp\n\t"
                   "ldr r0, [r0, #24]\n\t"
                   "ldrb r0, [r0, #-2]\n\t"
                   "cmp r0, %0\n\t"
                   "beq 2f\n"
                   "1: b Kernel_SVC_Handler\n"
                   "2: b Fault_Handler" ::"i"(portSVC_START_SCHEDULER));
}
