/*
 * Calls both ways (spec/services.md), over requests both ways: a header in front of argument and
 * result, and methods by their numbers. Linked only into programs that use it. Never allocates,
 * never waits but through request.c and client.c.
 */
#include "hythe_rpc.h"

#include "call.h"
#include "link.h"
#include "shared.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Bytes behind the header that the payloads of this endpoint may have. */
static uint32_t endpoint_bytes(const struct hythe_endpoint *endpoint)
{
    uint32_t bytes = endpoint->link->endpoint_configs[endpoint->index].max_bytes;

    return bytes < HYTHE_CALL_BYTES ? 0 : bytes - HYTHE_CALL_BYTES;
}

static int is_own_method(uint32_t method)
{
    return method != 0 && method <= HYTHE_CALL_OWN_METHOD_MAX;
}

/* ---- Serving ---- */

/* Reads the header. 0: it is no call of a method of a program. */
static int accept(struct hythe_rpc_request *request)
{
    struct hythe_buffer *buffer = &request->buffer;
    uint32_t words[HYTHE_CALL_WORDS];

    if (buffer->length < HYTHE_CALL_BYTES) {
        return 0;
    }
    hythe_call_read(buffer->data, words);
    request->method = words[HYTHE_CALL_METHOD];
    request->task = words[HYTHE_CALL_TASK];
    request->timeout_ms = words[HYTHE_CALL_TIMEOUT];
    request->argument = buffer->data + HYTHE_CALL_BYTES;
    request->argument_bytes = buffer->length - HYTHE_CALL_BYTES;
    request->largest = words[HYTHE_CALL_ARGUMENT];
    return is_own_method(request->method) && request->timeout_ms != HYTHE_CALL_NO_TIMEOUT &&
           words[HYTHE_CALL_LENGTH] == request->argument_bytes;
}

/* Replies with `bytes` bytes behind the header, which are there. */
static int reply_with(struct hythe_rpc_request *request, int32_t result, uint32_t value,
                      uint32_t bytes)
{
    uint32_t words[HYTHE_CALL_WORDS] = {0};

    words[HYTHE_CALL_METHOD] = request->method;
    words[HYTHE_CALL_RESULT] = (uint32_t)result;
    words[HYTHE_CALL_VALUE] = value;
    words[HYTHE_CALL_LENGTH] = bytes;
    hythe_call_write(request->buffer.data, words);
    return hythe_reply(&request->buffer, HYTHE_CALL_BYTES + bytes);
}

int hythe_rpc_receive(struct hythe_endpoint *calls, struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply, uint32_t timeout_ms)
{
    int result;

    if (calls == NULL || calls->kind != HYTHE_KIND_REQUESTS || request == NULL || reply == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    result = hythe_receive(calls, &request->buffer, timeout_ms);
    if (result != HYTHE_OK) {
        return result;
    }
    if (!accept(request)) {
        return hythe_call_refuse(&request->buffer);
    }
    reply->result = request->buffer.data + HYTHE_CALL_BYTES;
    reply->capacity = least(least(request->largest, endpoint_bytes(calls)),
                            hythe_reply_capacity(&request->buffer) - HYTHE_CALL_BYTES);
    reply->bytes = 0;
    return HYTHE_OK;
}

int hythe_rpc_answer(struct hythe_rpc_request *request, const struct hythe_rpc_reply *reply,
                     int error)
{
    if (request == NULL || reply == NULL || request->buffer.endpoint == NULL || error < 0) {
        return HYTHE_E_ARGUMENT;
    }
    if (error > 0) {
        return reply_with(request, error, 0, 0);
    }
    if (reply->bytes > reply->capacity) {
        return reply_with(request, HYTHE_CALL_TOO_LARGE, reply->bytes, 0);
    }
    return reply_with(request, 0, 0, reply->bytes);
}

int hythe_rpc_dispatch(struct hythe_rpc_request *request, struct hythe_rpc_reply *reply,
                       const struct hythe_rpc_method *table, uint32_t count)
{
    uint32_t i;

    if (request == NULL || reply == NULL || request->buffer.endpoint == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    for (i = 0; i < count; i++) {
        if (table[i].method == request->method) {
            int error = table[i].serve(table[i].context, request, reply);
            return hythe_rpc_answer(request, reply, error);
        }
    }
    return reply_with(request, HYTHE_CALL_NO_SUCH_METHOD, 0, 0);
}

int hythe_rpc_serve(struct hythe_endpoint *calls, const struct hythe_rpc_method *table,
                    uint32_t count, uint32_t timeout_ms)
{
    struct hythe_rpc_request request;
    struct hythe_rpc_reply reply;
    int result = hythe_rpc_receive(calls, &request, &reply, timeout_ms);

    if (result != HYTHE_OK) {
        return result;
    }
    result = hythe_rpc_dispatch(&request, &reply, table, count);
    if (result == HYTHE_E_ARGUMENT) {
        /* The method's own error was none: its caller is told that there is no reply. */
        (void)hythe_release(&request.buffer);
    }
    return result;
}

/* ---- Calling ---- */

/* Moves the payload's begin behind the header, or back. */
static void skip_header(struct hythe_buffer *buffer)
{
    buffer->data += HYTHE_CALL_BYTES;
    buffer->length -= HYTHE_CALL_BYTES;
}

static void unskip_header(struct hythe_buffer *buffer)
{
    buffer->data -= HYTHE_CALL_BYTES;
    buffer->length += HYTHE_CALL_BYTES;
}

int hythe_rpc_lease(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    int result = hythe_call_lease(client, buffer, 0, timeout_ms);

    if (result == HYTHE_OK) {
        skip_header(buffer);
    }
    return result;
}

static void describe(uint32_t words[HYTHE_CALL_WORDS], uint32_t method, uint32_t bytes,
                     uint32_t largest, uint32_t timeout_ms)
{
    words[HYTHE_CALL_METHOD] = method;
    words[HYTHE_CALL_TIMEOUT] = timeout_ms;
    words[HYTHE_CALL_ARGUMENT] = largest;
    words[HYTHE_CALL_LENGTH] = bytes;
}

int hythe_rpc_begin(struct hythe_client *client, uint32_t method, struct hythe_buffer *buffer,
                    uint32_t bytes, uint32_t timeout_ms, uint64_t *number)
{
    uint32_t words[HYTHE_CALL_WORDS] = {0};
    uint32_t largest;
    int result;

    if (client == NULL || buffer == NULL || buffer->endpoint == NULL || !is_own_method(method) ||
        timeout_ms == HYTHE_CALL_NO_TIMEOUT) {
        return HYTHE_E_ARGUMENT;
    }
    largest = endpoint_bytes(client->endpoint);
    if (bytes > buffer->length || bytes > largest) {
        return HYTHE_E_LENGTH;
    }
    describe(words, method, bytes, largest, timeout_ms);
    unskip_header(buffer);
    hythe_call_write(buffer->data, words);
    result = hythe_request_send(client, buffer, HYTHE_CALL_BYTES + bytes, number);
    if (buffer->endpoint != NULL) {
        skip_header(buffer);
    }
    return result;
}

/* What the header of a reply says. */
static int outcome(struct hythe_rpc_result *result)
{
    const struct hythe_buffer *buffer = &result->buffer;
    uint32_t words[HYTHE_CALL_WORDS];
    int32_t said;

    if (buffer->length < HYTHE_CALL_BYTES) {
        return HYTHE_E_MALFORMED;
    }
    hythe_call_read(buffer->data, words);
    result->bytes = buffer->length - HYTHE_CALL_BYTES;
    if (words[HYTHE_CALL_LENGTH] != result->bytes) {
        return HYTHE_E_MALFORMED;
    }
    said = (int32_t)words[HYTHE_CALL_RESULT];
    if (said == 0) {
        result->data = buffer->data + HYTHE_CALL_BYTES;
        return HYTHE_OK;
    }
    result->bytes = 0;
    if (said > 0) {
        result->error = said;
        return HYTHE_E_FAILED;
    }
    if (said == HYTHE_CALL_TOO_LARGE) {
        result->bytes = words[HYTHE_CALL_VALUE];
        return HYTHE_E_RESULT;
    }
    return said == HYTHE_CALL_NO_SUCH_METHOD ? HYTHE_E_METHOD : HYTHE_E_MALFORMED;
}

/* What came of a call whose reply was waited for, which said `said`. */
static int settle(struct hythe_rpc_result *result, int said)
{
    result->data = NULL;
    result->bytes = 0;
    result->error = 0;
    if (said != HYTHE_OK) {
        return said;
    }
    said = outcome(result);
    if (said == HYTHE_E_MALFORMED) {
        return hythe_call_refuse(&result->buffer);
    }
    if (said != HYTHE_OK) {
        (void)hythe_release(&result->buffer);
    }
    return said;
}

int hythe_rpc_wait(struct hythe_client *client, uint64_t *number, struct hythe_rpc_result *result,
                   uint32_t timeout_ms)
{
    if (result == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    return settle(result, hythe_reply_wait(client, number, &result->buffer, timeout_ms));
}

int hythe_rpc_call(struct hythe_client *client, uint32_t method, const void *argument,
                   uint32_t bytes, void *result, uint32_t capacity, uint32_t *length,
                   uint32_t timeout_ms)
{
    uint32_t words[HYTHE_CALL_WORDS] = {0};
    struct hythe_rpc_result came;
    int said;

    if (client == NULL || length == NULL || (argument == NULL && bytes != 0) ||
        (result == NULL && capacity != 0) || !is_own_method(method) ||
        timeout_ms == HYTHE_CALL_NO_TIMEOUT) {
        return HYTHE_E_ARGUMENT;
    }
    describe(words, method, bytes, least(capacity, endpoint_bytes(client->endpoint)), timeout_ms);
    said = settle(&came, hythe_call_ask(client, words, argument, &came.buffer, timeout_ms));
    *length = said == HYTHE_E_FAILED ? (uint32_t)came.error : came.bytes;
    if (said == HYTHE_OK) {
        if (came.bytes > capacity) {
            said = HYTHE_E_RESULT;
        } else {
            hythe_bytes_copy(result, came.data, came.bytes);
        }
        (void)hythe_release(&came.buffer);
    }
    return said;
}
