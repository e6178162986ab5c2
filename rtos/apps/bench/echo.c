/*
 * Untouched: forwarded in the slot that it came in. Filled: read whole in place, and answered in a
 * slot of `pong`.
 */
#include "echo.h"

#include "payload.h"

/* Bounds each wait; the loops go on. */
#define WAIT_MS 1000u

struct echo {
    struct hythe_endpoint *ping;
    struct hythe_endpoint *pong;
    /* 0: a call only looks. */
    uint32_t timeout_ms;
};

/* Nothing came within the time, and it may still come. */
static int may_come(int result)
{
    return result == HYTHE_E_TIMEOUT;
}

/* 0: Linux has left. */
static int forward(const struct echo *echo, struct hythe_buffer *buffer)
{
    if (hythe_forward(buffer, echo->pong, WAIT_MS) >= 0) {
        return 1;
    }
    (void)hythe_release(buffer);
    return 0;
}

static int lease(const struct echo *echo, const struct hythe_buffer *buffer,
                 struct hythe_buffer *reply)
{
    int result;

    do {
        result = hythe_lease(echo->pong, reply, echo->timeout_ms);
    } while (result == HYTHE_E_NO_SLOT && !hythe_buffer_is_stale(buffer));
    return result == HYTHE_OK;
}

static int is_aligned(const struct hythe_buffer *buffer)
{
    return (uintptr_t)buffer->data % PAYLOAD_WORD_BYTES == 0;
}

/* 0: Linux has left, or sends what cannot be. */
static int answer(const struct echo *echo, struct hythe_buffer *buffer)
{
    struct hythe_buffer reply;
    uint32_t bytes = buffer->length;
    int answered = 0;

    if (lease(echo, buffer, &reply)) {
        if (is_aligned(buffer) && is_aligned(&reply) && bytes <= reply.length) {
            payload_fill(reply.data, bytes, payload_sum(buffer->data, bytes));
            answered = hythe_publish(&reply, bytes, WAIT_MS) == HYTHE_OK;
        }
        if (reply.endpoint != NULL) {
            (void)hythe_release(&reply);
        }
    }
    (void)hythe_release(buffer);
    return answered;
}

void echo_run(const struct order *order, struct hythe_endpoint *ping, struct hythe_endpoint *pong)
{
    const struct echo echo = {ping, pong, order->wait == ORDER_POLL ? 0 : WAIT_MS};
    struct hythe_buffer buffer;
    int goes_on = 1;

    while (goes_on) {
        int result = hythe_receive(ping, &buffer, echo.timeout_ms);
        if (result != HYTHE_OK) {
            goes_on = may_come(result);
        } else if (buffer.length == 0) {
            (void)hythe_release(&buffer);
            goes_on = 0;
        } else if (order->payload == ORDER_UNTOUCHED) {
            goes_on = forward(&echo, &buffer);
        } else {
            goes_on = answer(&echo, &buffer);
        }
    }
}
