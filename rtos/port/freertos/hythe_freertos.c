/*
 * The FreeRTOS port: task notifications, a suspended scheduler as the lock, the kernel's ticks.
 * Called by the library from tasks; never from an interrupt, but for
 * hythe_freertos_bell_from_isr(). Allocates nothing.
 */
#include "hythe_freertos.h"

/* 1: the task was new, and a bell may have come before it could be notified. */
static int join(struct hythe_freertos *freertos)
{
    TaskHandle_t self = xTaskGetCurrentTaskHandle();
    UBaseType_t i;
    int joined = 0;

    /* Only this task adds its own entry, so looking for it needs no critical section. */
    for (i = 0; i < freertos->task_count; i++) {
        if (freertos->tasks[i] == self) {
            return 0;
        }
    }
    taskENTER_CRITICAL();
    for (i = 0; i < freertos->task_count && freertos->tasks[i] != NULL; i++) {
    }
    if (i < HYTHE_FREERTOS_MAX_TASKS) {
        freertos->tasks[i] = self;
        freertos->task_count += i == freertos->task_count;
        joined = 1;
    }
    taskEXIT_CRITICAL();
    return joined;
}

void hythe_freertos_leave(struct hythe_freertos *freertos, TaskHandle_t task)
{
    UBaseType_t i;

    taskENTER_CRITICAL();
    for (i = 0; i < freertos->task_count; i++) {
        if (freertos->tasks[i] == task) {
            freertos->tasks[i] = NULL;
        }
    }
    taskEXIT_CRITICAL();
}

static void freertos_wait(void *context, uint32_t timeout_ms)
{
    struct hythe_freertos *freertos = context;
    TickType_t ticks = pdMS_TO_TICKS(timeout_ms);

    if (join(freertos)) {
        return;
    }
    /* Rounded up: a wait of no ticks at all would turn a caller's loop into spinning. */
    (void)ulTaskNotifyTakeIndexed(HYTHE_FREERTOS_NOTIFY_INDEX, pdTRUE, ticks != 0 ? ticks : 1);
}

static void freertos_ring(void *context)
{
    struct hythe_freertos *freertos = context;

    freertos->ring();
}

static uint32_t freertos_now_ms(void *context)
{
    (void)context;
    return (uint32_t)(xTaskGetTickCount() * (1000u / configTICK_RATE_HZ));
}

static void freertos_lock(void *context)
{
    (void)context;
    vTaskSuspendAll();
}

static void freertos_unlock(void *context)
{
    (void)context;
    (void)xTaskResumeAll();
}

void hythe_freertos_start(struct hythe_freertos *freertos, void (*ring)(void),
                          struct hythe_port *port)
{
    freertos->ring = ring;
    freertos->task_count = 0;
    port->context = freertos;
    port->wait = freertos_wait;
    port->ring = freertos_ring;
    port->now_ms = freertos_now_ms;
    port->lock = freertos_lock;
    port->unlock = freertos_unlock;
    port->clean = NULL;
    port->invalidate = NULL;
}

BaseType_t hythe_freertos_bell_from_isr(struct hythe_freertos *freertos)
{
    BaseType_t switch_due = pdFALSE;
    UBaseType_t i;

    for (i = 0; i < freertos->task_count; i++) {
        if (freertos->tasks[i] != NULL) {
            vTaskNotifyGiveIndexedFromISR(freertos->tasks[i], HYTHE_FREERTOS_NOTIFY_INDEX,
                                          &switch_due);
        }
    }
    return switch_due;
}
