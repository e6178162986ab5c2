/* FreeRTOS on mps2-an386-mpu: as on the other mps2 boards, with its port for the MPU. */
#ifndef FREERTOS_CONFIG_MPU_H
#define FREERTOS_CONFIG_MPU_H

#include "../mps2/FreeRTOSConfig.h"

/* The kernel's objects lie in its own memory (protection.c). */
#undef configKERNEL_PROVIDED_STATIC_MEMORY
#define configKERNEL_PROVIDED_STATIC_MEMORY 0

#define configTOTAL_MPU_REGIONS 8
#define configENFORCE_SYSTEM_CALLS_FROM_KERNEL_ONLY 1
#define configALLOW_UNPRIVILEGED_CRITICAL_SECTIONS 0
#define configUSE_MPU_WRAPPERS_V1 0
#define configENABLE_ACCESS_CONTROL_LIST 1
#define configSYSTEM_CALL_STACK_SIZE 128
/* Tasks and queues together. */
#define configPROTECTED_KERNEL_OBJECT_POOL_SIZE 32

/* Its calls come by way of the board's handler (fault.c). */
#undef vPortSVCHandler
#define vPortSVCHandler Kernel_SVC_Handler
#define configCHECK_HANDLER_INSTALLATION 0

/* What no program of ours uses. */
#define configUSE_EVENT_GROUPS 0
#define configUSE_STREAM_BUFFERS 0

#endif
