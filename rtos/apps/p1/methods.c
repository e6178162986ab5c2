/*
 * One task serves all methods. It runs for ever; between two calls it holds the calls of HOLD and
 * nothing else. README.md says what each method does.
 */
#include "methods.h"

#include <string.h>

#include "FreeRTOS.h"
#include "task.h"

#include "guest.h"

/* Bounds each wait; the loop goes on. */
#define WAIT_MS 1000u

enum {
    REVERSE = 1,
    HOLD = 2,
    FAIL = 3,
    FILL = 4,
    SLEEP = 5,
    ASK = 6,
    ASK_MANY = 7,
    COUNT = 8
};

/* What ASK and ASK_MANY are told, and what ASK says of its outcome. */
enum {
    ASK_AT_METHOD = 0,
    ASK_AT_TIMEOUT = 4,
    ASK_AT_CAPACITY = 8,
    ASK_BYTES = 12,
    OUTCOME_AT_RESULT = 0,
    OUTCOME_AT_LENGTH = 4,
    OUTCOME_BYTES = 8
};

/* The number of a failure: the argument or the space for the result is too short. */
#define TOO_SHORT 1

/* In this file, but for HOLD. */
#define OWN_METHODS 7

static uint32_t word_at(const uint8_t *bytes, uint32_t at)
{
    uint32_t word;

    memcpy(&word, bytes + at, sizeof word);
    return word;
}

static void put_word(uint8_t *bytes, uint32_t at, uint32_t word)
{
    memcpy(bytes + at, &word, sizeof word);
}

static int reverse(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    uint32_t count = request->argument_bytes;
    uint32_t i;

    (void)context;
    reply->bytes = count;
    /* In place: argument and result begin at the same byte. */
    for (i = 0; i < count / 2 && count <= reply->capacity; i++) {
        uint8_t first = reply->result[i];
        reply->result[i] = reply->result[count - 1 - i];
        reply->result[count - 1 - i] = first;
    }
    return 0;
}

static int fail(void *context, const struct hythe_rpc_request *request,
                struct hythe_rpc_reply *reply)
{
    (void)context;
    (void)reply;
    return request->argument_bytes < 4 ? TOO_SHORT
                                       : (int)(word_at(request->argument, 0) & 0x7FFFFFFFu);
}

static int fill(void *context, const struct hythe_rpc_request *request,
                struct hythe_rpc_reply *reply)
{
    (void)context;
    if (request->argument_bytes < 4) {
        return TOO_SHORT;
    }
    reply->bytes = word_at(request->argument, 0);
    if (reply->bytes <= reply->capacity) {
        memset(reply->result, 0x5A, reply->bytes);
    }
    return 0;
}

static int sleep_ms(void *context, const struct hythe_rpc_request *request,
                    struct hythe_rpc_reply *reply)
{
    (void)context;
    (void)reply;
    if (request->argument_bytes < 4) {
        return TOO_SHORT;
    }
    vTaskDelay(pdMS_TO_TICKS(word_at(request->argument, 0)));
    return 0;
}

static int ask(void *context, const struct hythe_rpc_request *request,
               struct hythe_rpc_reply *reply)
{
    struct methods *methods = context;
    uint32_t length;
    uint32_t capacity;
    int result;

    if (request->argument_bytes < ASK_BYTES || reply->capacity < OUTCOME_BYTES) {
        return TOO_SHORT;
    }
    capacity = word_at(request->argument, ASK_AT_CAPACITY);
    if (capacity > reply->capacity - OUTCOME_BYTES) {
        capacity = reply->capacity - OUTCOME_BYTES;
    }
    /* The argument is copied out before the result is copied over it. */
    result = hythe_rpc_call(&methods->client, word_at(request->argument, ASK_AT_METHOD),
                            request->argument + ASK_BYTES, request->argument_bytes - ASK_BYTES,
                            reply->result + OUTCOME_BYTES, capacity, &length,
                            word_at(request->argument, ASK_AT_TIMEOUT));
    put_word(reply->result, OUTCOME_AT_RESULT, (uint32_t)result);
    put_word(reply->result, OUTCOME_AT_LENGTH, length);
    reply->bytes = OUTCOME_BYTES + (result == HYTHE_OK ? length : 0);
    return 0;
}

/* Begins the calls; returns how many. */
static uint32_t begin_many(struct methods *methods, uint32_t method, uint32_t timeout_ms,
                           uint64_t numbers[METHODS_HELD_MAX])
{
    struct hythe_buffer buffer;
    uint32_t i;

    for (i = 0; i < METHODS_HELD_MAX; i++) {
        if (hythe_rpc_lease(&methods->client, &buffer, timeout_ms) != HYTHE_OK) {
            break;
        }
        put_word(buffer.data, 0, i);
        if (hythe_rpc_begin(&methods->client, method, &buffer, 4, timeout_ms, &numbers[i]) !=
            HYTHE_OK) {
            if (buffer.endpoint != NULL) {
                (void)hythe_release(&buffer);
            }
            break;
        }
    }
    return i;
}

static int ask_many(void *context, const struct hythe_rpc_request *request,
                    struct hythe_rpc_reply *reply)
{
    struct methods *methods = context;
    uint64_t numbers[METHODS_HELD_MAX];
    uint32_t timeout_ms;
    uint32_t count;
    uint32_t i;

    if (request->argument_bytes < ASK_BYTES || reply->capacity < 4 * METHODS_HELD_MAX) {
        return TOO_SHORT;
    }
    timeout_ms = word_at(request->argument, ASK_AT_TIMEOUT);
    count = begin_many(methods, word_at(request->argument, ASK_AT_METHOD), timeout_ms, numbers);
    for (i = 0; i < count; i++) {
        struct hythe_rpc_result result;
        int said = hythe_rpc_wait(&methods->client, &numbers[i], &result, timeout_ms);
        uint32_t word = (uint32_t)said;
        if (said == HYTHE_OK) {
            word = result.bytes == 4 ? word_at(result.data, 0) : (uint32_t)HYTHE_E_MALFORMED;
            (void)hythe_release(&result.buffer);
        } else if (said == HYTHE_E_TIMEOUT) {
            (void)hythe_request_forget(&methods->client, numbers[i]);
        }
        put_word(reply->result, 4 * i, word);
    }
    reply->bytes = 4 * count;
    return 0;
}

static int count_late(void *context, const struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply)
{
    const struct methods *methods = context;
    struct hythe_counters counters;

    (void)request;
    hythe_endpoint_counters(methods->client.endpoint, &counters);
    reply->bytes = 4;
    if (reply->capacity >= 4) {
        put_word(reply->result, 0, counters.dropped);
    }
    return 0;
}

/* The last of them is answered first. */
static void answer_held(struct methods *methods)
{
    while (methods->held_count != 0) {
        uint32_t i = --methods->held_count;
        struct hythe_rpc_reply *reply = &methods->held_reply[i];
        reply->bytes = methods->held[i].argument_bytes;
        (void)hythe_rpc_answer(&methods->held[i], reply, 0);
    }
}

void methods_run(void *argument)
{
    struct methods *methods = argument;
    struct hythe_rpc_method
        table[OWN_METHODS + SEGMENTS_METHODS + GUESTS_METHODS + OBJECTS_METHODS] = {
            {REVERSE, reverse, NULL},     {FAIL, fail, NULL},  {FILL, fill, NULL},
            {SLEEP, sleep_ms, NULL},      {ASK, ask, methods}, {ASK_MANY, ask_many, methods},
            {COUNT, count_late, methods},
        };
    struct hythe_rpc_method *next = table + OWN_METHODS;

    segments_methods(methods->segments, next);
    next += SEGMENTS_METHODS;
    guests_methods(methods->calls->link, next);
    next += GUESTS_METHODS;
    objects_methods(methods->objects, next);
    for (;;) {
        uint32_t i = methods->held_count;
        struct hythe_rpc_request *request = &methods->held[i];
        struct hythe_rpc_reply *reply = &methods->held_reply[i];
        if (hythe_rpc_receive(methods->calls, request, reply, WAIT_MS) != HYTHE_OK) {
            continue;
        }
        if (request->method != HOLD) {
            (void)hythe_rpc_dispatch(request, reply, table, sizeof table / sizeof table[0]);
        } else if (++methods->held_count == METHODS_HELD_MAX) {
            answer_held(methods);
        }
    }
}
