/* FreeRTOS on the mps2-an386 board: static memory only, preemptive, ticks for time-outs only. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 1
#define configUSE_TICKLESS_IDLE 0
#define configCPU_CLOCK_HZ 25000000
#define configTICK_RATE_HZ 250
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configMAX_PRIORITIES 5
#define configMAX_TASK_NAME_LEN 16
#define configMINIMAL_STACK_SIZE 128
#define configIDLE_SHOULD_YIELD 1
#define configUSE_MUTEXES 1
#define configUSE_TASK_NOTIFICATIONS 1
#define configUSE_TIMERS 0
#define configUSE_IDLE_HOOK 1
#define configUSE_TICK_HOOK 0
#define configCHECK_FOR_STACK_OVERFLOW 2
#define configUSE_MALLOC_FAILED_HOOK 0
#define configSUPPORT_STATIC_ALLOCATION 1
#define configSUPPORT_DYNAMIC_ALLOCATION 0
#define configKERNEL_PROVIDED_STATIC_MEMORY 1
#define INCLUDE_vTaskDelay 1
#define INCLUDE_vTaskPrioritySet 1
#define INCLUDE_vTaskSuspend 1

/* Priorities as the hardware sees them, in the upper bits. The doorbell (start.c) lies between these two. */
#define configKERNEL_INTERRUPT_PRIORITY (7 << 5)
#define configMAX_SYSCALL_INTERRUPT_PRIORITY (5 << 5)

#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler

void board_fail(const char *file, int line);
#define configASSERT(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            board_fail(__FILE__, __LINE__);                                                                            \
        }                                                                                                              \
    } while (0)

#endif
