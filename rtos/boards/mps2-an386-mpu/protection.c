/*
 * What the board needs besides the others' for FreeRTOS's port with the MPU: memory of the idle
 * task, and who may use devices. Called by the kernel before the first task runs.
 */
#include <stdint.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"

/* Registers of the MPU and of the tick: Arm DDI 0403, B3.5 and B3.3. */
#define MPU_REGION_ATTRIBUTES (*(volatile uint32_t *)0xE000EDA0u)
#define ACCESS_MASK (7u << 24)
#define MPU_REGION_NUMBER (*(volatile uint32_t *)0xE000ED98u)
#define TICK_CONTROL (*(volatile uint32_t *)0xE000E010u)
#define TICK_RELOAD (*(volatile uint32_t *)0xE000E014u)
#define TICK_VALUE (*(volatile uint32_t *)0xE000E018u)
/* Counts the processor's clock, interrupts, runs. */
#define TICK_ON 7u
#define SYSTEM_HANDLERS (*(volatile uint32_t *)0xE000ED24u)
#define FAULTS_ENABLED (7u << 16)

/*
 * In place of the port's own, which does the same for the tick. The port has just given the devices
 * to all tasks, which would let a restricted one ring Linux and silence the console; and a fault of
 * the MPU a handler of its own, while all faults are to come to one (fault.c).
 */
void vPortSetupTimerInterrupt(void)
{
    MPU_REGION_NUMBER = portGENERAL_PERIPHERALS_REGION;
    MPU_REGION_ATTRIBUTES =
        (MPU_REGION_ATTRIBUTES & ~ACCESS_MASK) | portMPU_REGION_PRIVILEGED_READ_WRITE;
    SYSTEM_HANDLERS &= ~FAULTS_ENABLED;
    TICK_CONTROL = 0;
    TICK_VALUE = 0;
    TICK_RELOAD = configCPU_CLOCK_HZ / configTICK_RATE_HZ - 1u;
    TICK_CONTROL = TICK_ON;
}

void vApplicationGetIdleTaskMemory(StaticTask_t **task, StackType_t **stack,
                                   configSTACK_DEPTH_TYPE *words)
{
    static StaticTask_t idle __attribute__((section("privileged_data")));
    /* A power of two, aligned to its size. */
    static StackType_t idle_stack[configMINIMAL_STACK_SIZE]
        __attribute__((aligned(sizeof(StackType_t) * configMINIMAL_STACK_SIZE)));

    *task = &idle;
    *stack = idle_stack;
    *words = configMINIMAL_STACK_SIZE;
}
