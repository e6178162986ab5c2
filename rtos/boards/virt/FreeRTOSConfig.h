/* FreeRTOS on the virt-a53 and virt-a57 boards. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include "../freertos_common.h"

#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_64_BITS
#define configMINIMAL_STACK_SIZE 512
/*
 * Where the compiler may use vector registers, it does so in any task: each has a context of them.
 */
#ifdef __ARM_FP
#define configUSE_TASK_FPU_SUPPORT 2
#else
#define configUSE_TASK_FPU_SUPPORT 1
#endif
#define configCHECK_FOR_STACK_OVERFLOW 2

/*
 * Of the GIC: five bits of priority, the upper ones of a byte. Those from MAX_API on may call
 * FreeRTOS.
 */
#define configUNIQUE_INTERRUPT_PRIORITIES 32
#define configMAX_API_CALL_INTERRUPT_PRIORITY 18

#ifndef __ASSEMBLER__
void timer_start_tick(void);
void timer_clear(void);
#define configSETUP_TICK_INTERRUPT() timer_start_tick()
#define configCLEAR_TICK_INTERRUPT() timer_clear()
#endif

#endif
