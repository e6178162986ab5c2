/* FreeRTOS on the mps2-an385 and mps2-an386 boards: ticks for time-outs only. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include "../freertos_common.h"

#define configCPU_CLOCK_HZ 25000000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configMINIMAL_STACK_SIZE 128
#define configCHECK_FOR_STACK_OVERFLOW 2

/*
 * Priorities as the hardware sees them, in the upper bits. The doorbell (start.c) lies between
 * these two.
 */
#define configKERNEL_INTERRUPT_PRIORITY (7 << 5)
#define configMAX_SYSCALL_INTERRUPT_PRIORITY (5 << 5)

#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler

#endif
