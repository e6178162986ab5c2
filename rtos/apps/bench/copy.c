/*
 * The copying transfer on the core: each message is copied out of its fragments into one buffer of
 * the core's own, and its answer from there into other fragments.
 */
#include "copy.h"

#include "payload.h"
#include "transfer.h"

static uint64_t message_words[COPY_MESSAGE_BYTES_MAX / sizeof(uint64_t)];

void copy_run(const struct order *order, const struct hythe_buffer *memory,
              const struct hythe_port *port)
{
    struct transfer transfer = {
        .memory = memory,
        .port = port,
        .polls = order->wait == ORDER_POLL,
    };
    uint8_t *message = (uint8_t *)(void *)message_words;
    uint32_t bytes;

    if (transfer_open(&transfer) != HYTHE_OK) {
        return;
    }
    do {
        bytes = transfer_receive(&transfer, message, COPY_MESSAGE_BYTES_MAX);
        if (order->payload == ORDER_FILLED) {
            payload_fill(message, bytes, payload_sum(message, bytes));
        }
        transfer_begin(&transfer, bytes);
    } while (bytes != 0 && transfer_put(&transfer, message, bytes));
}
