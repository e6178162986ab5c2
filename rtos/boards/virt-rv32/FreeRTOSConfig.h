/* FreeRTOS on the virt-rv32 board: ticks for time-outs only. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include "../freertos_common.h"

/* How often a second the machine timer counts; addresses are those of QEMU's `virt`. */
#define configCPU_CLOCK_HZ 10000000
#define configMTIME_BASE_ADDRESS 0x0200BFF8
#define configMTIMECMP_BASE_ADDRESS 0x02004000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configMINIMAL_STACK_SIZE 256
#define configISR_STACK_SIZE_WORDS 1024
#define configCHECK_FOR_STACK_OVERFLOW 2

#endif
