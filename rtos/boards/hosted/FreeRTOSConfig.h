/* FreeRTOS on the hosted board: ticks for time-outs only (the doorbell is a signal). */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include "../freertos_common.h"

#define configCPU_CLOCK_HZ 1000000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_64_BITS
#define configMINIMAL_STACK_SIZE 4096
#define configCHECK_FOR_STACK_OVERFLOW 0
/* Tasks run on the stacks of their threads. */
#define HYTHE_FREERTOS_STACKS_KNOWN 0

#endif
