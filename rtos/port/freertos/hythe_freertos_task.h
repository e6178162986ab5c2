/*
 * Port of hythe_task.h for FreeRTOS: tasks in static memory, `memory` of their configuration is a
 * StaticTask_t, `stack` an array of StackType_t. For programs that register tasks; the program's
 * folder says in freertos_app.h whether the kernel counts their run time.
 */
#ifndef HYTHE_FREERTOS_TASK_H
#define HYTHE_FREERTOS_TASK_H

#include "hythe_freertos.h"
#include "hythe_port_task.h"

/* Fills `port`. `freertos` is that of the link. */
void hythe_freertos_task_start(struct hythe_freertos *freertos, struct hythe_port_task *port);

#endif
