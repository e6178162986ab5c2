/* FreeRTOS on the virt-a53 board: static memory only, preemptive. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 1
#define configUSE_TICKLESS_IDLE 0
#define configTICK_RATE_HZ 250
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_64_BITS
#define configMAX_PRIORITIES 5
#define configMAX_TASK_NAME_LEN 16
#define configMINIMAL_STACK_SIZE 512
#define configIDLE_SHOULD_YIELD 1
#define configUSE_MUTEXES 1
#define configUSE_TASK_NOTIFICATIONS 1
#define configUSE_TASK_FPU_SUPPORT 1
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

/* Of the GIC: five bits of priority, the upper ones of a byte. Those from MAX_API on may call FreeRTOS. */
#define configUNIQUE_INTERRUPT_PRIORITIES 32
#define configMAX_API_CALL_INTERRUPT_PRIORITY 18

#ifndef __ASSEMBLER__
void timer_start_tick(void);
void timer_clear(void);
#define configSETUP_TICK_INTERRUPT() timer_start_tick()
#define configCLEAR_TICK_INTERRUPT() timer_clear()

void board_fail(const char *file, int line);
#define configASSERT(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            board_fail(__FILE__, __LINE__);                                                                            \
        }                                                                                                              \
    } while (0)
#endif

#endif
