/*
 * The restricted task's half of the gate (hythe_gate.h). Runs without privilege: it uses its stack,
 * constants and system calls of the kernel, nothing else.
 */
#include "hythe_freertos_mpu.h"

#if portUSING_MPU_WRAPPERS

int hythe_gate_ask(const struct hythe_gate *gate, struct hythe_gate_call *call)
{
    /* What a gate says that cannot reach the call. */
    call->result = HYTHE_E_ARGUMENT;
    /*
     * The gate takes each call at once, or when the one before has ended; it answers every one, and
     * bounds what it does for it. It ends only together with this task.
     */
    (void)xQueueSend((QueueHandle_t)gate->queue, &call, portMAX_DELAY);
    (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
    return *(volatile int32_t *)&call->result;
}

static int take(const struct hythe_gate *gate, uint32_t operation, uint32_t endpoint,
                struct hythe_gate_buffer *buffer, uint32_t timeout_ms)
{
    struct hythe_gate_call call = {
        .operation = operation,
        .target = endpoint,
        .timeout_ms = timeout_ms,
    };
    int result = hythe_gate_ask(gate, &call);

    buffer->number = result == HYTHE_OK ? call.buffer : 0;
    buffer->data = call.at;
    buffer->length = call.bytes;
    return result;
}

static int give(const struct hythe_gate *gate, struct hythe_gate_call *call,
                struct hythe_gate_buffer *buffer)
{
    int result;

    call->buffer = buffer->number;
    result = hythe_gate_ask(gate, call);
    buffer->number = call->buffer;
    return result;
}

int hythe_gate_should_stop(const struct hythe_gate *gate)
{
    struct hythe_gate_call call = {.operation = HYTHE_GATE_SHOULD_STOP};

    return hythe_gate_ask(gate, &call);
}

int hythe_gate_receive(const struct hythe_gate *gate, uint32_t endpoint,
                       struct hythe_gate_buffer *buffer, uint32_t timeout_ms)
{
    return take(gate, HYTHE_GATE_RECEIVE, endpoint, buffer, timeout_ms);
}

int hythe_gate_lease(const struct hythe_gate *gate, uint32_t endpoint,
                     struct hythe_gate_buffer *buffer, uint32_t timeout_ms)
{
    return take(gate, HYTHE_GATE_LEASE, endpoint, buffer, timeout_ms);
}

int hythe_gate_publish(const struct hythe_gate *gate, struct hythe_gate_buffer *buffer,
                       uint32_t length, uint32_t timeout_ms)
{
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_PUBLISH,
        .bytes = length,
        .timeout_ms = timeout_ms,
    };

    return give(gate, &call, buffer);
}

int hythe_gate_forward(const struct hythe_gate *gate, struct hythe_gate_buffer *buffer,
                       uint32_t endpoint, uint32_t timeout_ms)
{
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_FORWARD,
        .target = endpoint,
        .timeout_ms = timeout_ms,
    };

    return give(gate, &call, buffer);
}

int hythe_gate_release(const struct hythe_gate *gate, struct hythe_gate_buffer *buffer)
{
    struct hythe_gate_call call = {.operation = HYTHE_GATE_RELEASE};

    return give(gate, &call, buffer);
}

int hythe_gate_sem_wait(const struct hythe_gate *gate, uint32_t semaphore, uint32_t timeout_ms)
{
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_SEM_WAIT,
        .target = semaphore,
        .timeout_ms = timeout_ms,
    };

    return hythe_gate_ask(gate, &call);
}

int hythe_gate_sem_post(const struct hythe_gate *gate, uint32_t semaphore)
{
    struct hythe_gate_call call = {.operation = HYTHE_GATE_SEM_POST, .target = semaphore};

    return hythe_gate_ask(gate, &call);
}

int hythe_gate_mq_send(const struct hythe_gate *gate, uint32_t queue, const void *message,
                       uint32_t bytes, uint32_t priority, uint32_t timeout_ms)
{
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_MQ_SEND,
        .target = queue,
        .bytes = bytes,
        .timeout_ms = timeout_ms,
        .value = priority,
        /* Only read. */
        .at = (uint8_t *)(uintptr_t)message,
    };

    return hythe_gate_ask(gate, &call);
}

int hythe_gate_mq_receive(const struct hythe_gate *gate, uint32_t queue, void *buffer,
                          uint32_t capacity, uint32_t *priority, uint32_t timeout_ms)
{
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_MQ_RECEIVE,
        .target = queue,
        .bytes = capacity,
        .timeout_ms = timeout_ms,
        .at = buffer,
    };
    int result = hythe_gate_ask(gate, &call);

    if (result >= 0 && priority != NULL) {
        *priority = call.value;
    }
    return result;
}

void hythe_gate_sleep(uint32_t time_ms)
{
    TickType_t ticks = pdMS_TO_TICKS(time_ms);

    vTaskDelay(ticks != 0 ? ticks : 1);
}

#else
/* C asks for something to be here. */
typedef int hythe_gate_needs_an_mpu;
#endif
