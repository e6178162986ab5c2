/*
 * Registered tasks on FreeRTOS. Called by the service task, but for self(). Allocates nothing.
 *
 * A task that has returned waits for its end here: were it to delete itself, only the idle task
 * would free its memory, and that never runs beside a task that never waits.
 */
#include "hythe_freertos_task.h"

#include "hythe_task.h"

/* Stacks of the hosted board are those of threads, and nobody knows how much of them is used. */
#ifndef HYTHE_FREERTOS_STACKS_KNOWN
#define HYTHE_FREERTOS_STACKS_KNOWN 1
#endif

/* Handles are pointers to what is not const. */
static TaskHandle_t handle_of(const void *identity)
{
    return (TaskHandle_t)(uintptr_t)identity;
}

static void run(void *argument)
{
    hythe_task_main(argument);
    for (;;) {
        vTaskSuspend(NULL);
    }
}

static const void *create(void *context, struct hythe_task *task)
{
    const struct hythe_task_config *config = task->config;

    (void)context;
    return xTaskCreateStatic(run, config->name, config->stack_bytes / sizeof(StackType_t), task,
                             config->priority | portPRIVILEGE_BIT, config->stack, config->memory);
}

static void end(void *context, const void *identity)
{
    /* The bell first: it would wake a task that is none any more. */
    hythe_freertos_leave(context, handle_of(identity));
    vTaskDelete(handle_of(identity));
}

static uint32_t state(void *context, const void *identity)
{
    (void)context;
    switch (eTaskGetState(handle_of(identity))) {
    case eRunning:
        return HYTHE_PORT_TASK_RUNNING;
    case eReady:
        return HYTHE_PORT_TASK_READY;
    default:
        return HYTHE_PORT_TASK_BLOCKED;
    }
}

static uint32_t stack_free(void *context, const void *identity)
{
    (void)context;
#if HYTHE_FREERTOS_STACKS_KNOWN
    return (uint32_t)(uxTaskGetStackHighWaterMark(handle_of(identity)) * sizeof(StackType_t));
#else
    (void)identity;
    return HYTHE_STACK_UNKNOWN;
#endif
}

static uint64_t run_time_us(void *context, const void *identity)
{
    (void)context;
#if configGENERATE_RUN_TIME_STATS
    uint64_t count = ulTaskGetRunTimeCounter(handle_of(identity));
    return count / board_clock_hz * 1000000u + count % board_clock_hz * 1000000u / board_clock_hz;
#else
    (void)identity;
    return 0;
#endif
}

static const void *self(void *context)
{
    (void)context;
    return xTaskGetCurrentTaskHandle();
}

void hythe_freertos_task_start(struct hythe_freertos *freertos, struct hythe_port_task *port)
{
    port->context = freertos;
    port->create = create;
    port->kill = end;
    port->state = state;
    port->stack_free = stack_free;
    port->run_time_us = run_time_us;
    port->fault = NULL;
    port->self = self;
}
