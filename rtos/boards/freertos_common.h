/*
 * What FreeRTOS is on every board (each board's FreeRTOSConfig.h includes this): static memory
 * only, preemptive.
 */
#ifndef FREERTOS_COMMON_H
#define FREERTOS_COMMON_H

#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 1
#define configUSE_TICKLESS_IDLE 0
#define configTICK_RATE_HZ 250
#define configMAX_PRIORITIES 5
#define configMAX_TASK_NAME_LEN 16
#define configIDLE_SHOULD_YIELD 1
#define configUSE_MUTEXES 1
#define configUSE_TASK_NOTIFICATIONS 1
#define configUSE_TIMERS 0
#define configUSE_IDLE_HOOK 1
#define configUSE_TICK_HOOK 0
#define configUSE_MALLOC_FAILED_HOOK 0
#define configSUPPORT_STATIC_ALLOCATION 1
#define configSUPPORT_DYNAMIC_ALLOCATION 0
#define configKERNEL_PROVIDED_STATIC_MEMORY 1
#define INCLUDE_eTaskGetState 1
#define INCLUDE_uxTaskGetStackHighWaterMark 1
#define INCLUDE_vTaskDelay 1
#define INCLUDE_vTaskDelete 1
#define INCLUDE_vTaskPrioritySet 1
#define INCLUDE_vTaskSuspend 1

/*
 * What a program wants beyond that stands in its own folder: configGENERATE_RUN_TIME_STATS, which
 * costs time at each switch of tasks.
 */
#if __has_include("freertos_app.h")
#include "freertos_app.h"
#endif

#ifndef configGENERATE_RUN_TIME_STATS
#define configGENERATE_RUN_TIME_STATS 0
#endif

#if configGENERATE_RUN_TIME_STATS
#define configRUN_TIME_COUNTER_TYPE uint64_t
#define portCONFIGURE_TIMER_FOR_RUN_TIME_STATS()
#define portALT_GET_RUN_TIME_COUNTER_VALUE(counter) ((counter) = board_clock())
#endif

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Counts from any start, and how often a second. By the kernel, its interrupts masked. */
uint64_t board_clock(void);
extern const uint32_t board_clock_hz;

void board_fail(const char *file, int line);
#define configASSERT(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            board_fail(__FILE__, __LINE__);                                                        \
        }                                                                                          \
    } while (0)
#endif

#endif
