/* Words of calls and rows as bytes in shared memory, and the call itself (spec/services.md). */
#include "call.h"

#include "hythe_rpc.h"
#include "link.h"
#include "shared.h"

void hythe_call_read(const volatile uint8_t *from, uint32_t words[HYTHE_CALL_WORDS])
{
    uint32_t i;

    for (i = 0; i < HYTHE_CALL_WORDS; i++, from += 4) {
        words[i] = from[0];
        words[i] |= (uint32_t)from[1] << 8;
        words[i] |= (uint32_t)from[2] << 16;
        words[i] |= (uint32_t)from[3] << 24;
    }
}

void hythe_words_write(volatile uint8_t *to, const uint32_t *words, uint32_t bytes)
{
    uint32_t i;

    for (i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(words[i / 4] >> i % 4 * 8);
    }
}

void hythe_call_write(volatile uint8_t *to, const uint32_t words[HYTHE_CALL_WORDS])
{
    hythe_words_write(to, words, HYTHE_CALL_BYTES);
}

void hythe_bytes_copy(uint8_t *to, const volatile uint8_t *from, uint32_t bytes)
{
    uint32_t i;

    for (i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}

int hythe_call_lease(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t bytes,
                     uint32_t timeout_ms)
{
    int result = hythe_request_lease(client, buffer, timeout_ms);

    if (result == HYTHE_OK &&
        (buffer->length < HYTHE_CALL_BYTES || buffer->length - HYTHE_CALL_BYTES < bytes)) {
        (void)hythe_release(buffer);
        return HYTHE_E_LENGTH;
    }
    return result;
}

int hythe_call_ask(struct hythe_client *client, const uint32_t words[HYTHE_CALL_WORDS],
                   const void *payload, struct hythe_buffer *answer, uint32_t timeout_ms)
{
    const struct hythe_port *port = client->endpoint->link->port;
    uint32_t start_ms = port->now_ms(port->context);
    uint32_t bytes = words[HYTHE_CALL_LENGTH];
    struct hythe_buffer buffer;
    uint32_t spent_ms;
    int result = hythe_call_lease(client, &buffer, bytes, timeout_ms);

    if (result != HYTHE_OK) {
        return result;
    }
    hythe_call_write(buffer.data, words);
    hythe_bytes_copy(buffer.data + HYTHE_CALL_BYTES, payload, bytes);
    spent_ms = port->now_ms(port->context) - start_ms;
    result = hythe_call(client, &buffer, HYTHE_CALL_BYTES + bytes, answer,
                        spent_ms < timeout_ms ? timeout_ms - spent_ms : 0);
    if (buffer.endpoint != NULL) {
        (void)hythe_release(&buffer);
    }
    return result;
}

void hythe_call_lied(struct hythe_endpoint *endpoint)
{
    hythe_link_lock(endpoint->link);
    hythe_violation(endpoint);
    hythe_link_unlock(endpoint->link);
}

int hythe_call_refuse(struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;

    (void)hythe_release(buffer);
    hythe_call_lied(endpoint);
    return HYTHE_E_MALFORMED;
}
