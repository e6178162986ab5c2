/*
 * Calls of the agent's services (spec/services.md): one function for all of them, which the files
 * of each kind call. Never allocates, never waits but through client.c, never believes a word of an
 * answer that it did not check.
 */
#include "services.h"

#include "link.h"
#include "shared.h"

/* Error numbers of Linux have 12 bits. */
#define ERRNO_MAX 4095
#define NO_ANSWER (-ERRNO_MAX - 1)

/* What the link says, as an error number of Linux. */
static int error_of(int result)
{
    /* By -result. */
    static const uint8_t numbers[] = {
        0,
        HYTHE_EINVAL,    /* HYTHE_E_ARGUMENT */
        HYTHE_ETIMEDOUT, /* HYTHE_E_TIMEOUT */
        HYTHE_ENOTCONN,  /* HYTHE_E_DOWN */
        HYTHE_ENOTCONN,  /* HYTHE_E_REFUSED */
        HYTHE_ENOTCONN,  /* HYTHE_E_DETACHED */
        HYTHE_ENOBUFS,   /* HYTHE_E_FULL */
        HYTHE_EPROTO,    /* HYTHE_E_QUARANTINED */
        HYTHE_EMSGSIZE,  /* HYTHE_E_LENGTH */
        HYTHE_ECONNRESET /* HYTHE_E_LOST */
    };

    if (result == HYTHE_STALE) {
        return -HYTHE_ECONNRESET;
    }
    if (result > 0 || -result >= (int)sizeof numbers) {
        return -HYTHE_EIO;
    }
    return -(int)numbers[-result];
}

int hythe_services_lie(struct hythe_services *services)
{
    hythe_call_lied(services->client.endpoint);
    return -HYTHE_EPROTO;
}

/* Number of the calling task; 0: it is not registered. */
static uint32_t own_number(const struct hythe_client *client)
{
    const struct hythe_tracker *tracker = client->endpoint->link->tracker;

    return tracker == NULL ? 0 : tracker->number(tracker);
}

/* What the answer says; NO_ANSWER: it is none. */
static int read_answer(struct hythe_services_call *call, const struct hythe_buffer *answer)
{
    uint32_t method = call->words[HYTHE_CALL_METHOD];
    uint32_t bytes = answer->length - HYTHE_CALL_BYTES;
    int32_t result;

    if (answer->length < HYTHE_CALL_BYTES) {
        return NO_ANSWER;
    }
    hythe_call_read(answer->data, call->words);
    result = (int32_t)call->words[HYTHE_CALL_RESULT];
    if (call->words[HYTHE_CALL_METHOD] != method || call->words[HYTHE_CALL_LENGTH] != bytes ||
        result < -ERRNO_MAX || bytes > (result < 0 ? 0 : call->result_bytes)) {
        return NO_ANSWER;
    }
    call->result_bytes = bytes;
    hythe_bytes_copy(call->result, answer->data + HYTHE_CALL_BYTES, bytes);
    return result;
}

int hythe_services_call(struct hythe_services *services, struct hythe_services_call *call,
                        uint32_t method, uint32_t first, uint32_t timeout_ms)
{
    struct hythe_client *client = &services->client;
    uint32_t *words = call->words;
    uint32_t all_ms = timeout_ms + call->grace_ms;
    struct hythe_buffer answer;
    int result;

    if (timeout_ms == HYTHE_CALL_NO_TIMEOUT) {
        return -HYTHE_EINVAL;
    }
    if (call->payload_bytes > HYTHE_SERVICES_SMALL) {
        client = &services->messages;
        if (client->endpoint == NULL) {
            return -HYTHE_EMSGSIZE;
        }
    }
    words[HYTHE_CALL_METHOD] = method;
    words[HYTHE_CALL_TASK] = own_number(client);
    words[HYTHE_CALL_TIMEOUT] = timeout_ms;
    words[HYTHE_CALL_ARGUMENT] = first;
    words[HYTHE_CALL_LENGTH] = call->payload_bytes;
    result = hythe_call_ask(client, words, call->payload, &answer,
                            all_ms < timeout_ms ? HYTHE_FOREVER : all_ms);
    if (result != HYTHE_OK) {
        return error_of(result);
    }
    result = read_answer(call, &answer);
    if (result >= 0 && method == HYTHE_METHOD_MQ_RECEIVE) {
        words[HYTHE_CALL_METHOD] = HYTHE_METHOD_MQ_TAKEN;
        words[HYTHE_CALL_LENGTH] = 0;
        hythe_call_write(answer.data, words);
        hythe_request_tell(client, &answer, HYTHE_CALL_BYTES);
    } else {
        (void)hythe_release(&answer);
    }
    return result == NO_ANSWER ? hythe_services_lie(services) : result;
}

static int task_ended(struct hythe_services *services, uint32_t task)
{
    uint32_t words[HYTHE_CALL_WORDS] = {0};
    struct hythe_buffer buffer;
    int result = hythe_call_lease(&services->client, &buffer, 0, 0);

    if (result == HYTHE_OK) {
        words[HYTHE_CALL_METHOD] = HYTHE_METHOD_TASK_ENDED;
        words[HYTHE_CALL_ARGUMENT] = task;
        hythe_call_write(buffer.data, words);
        hythe_request_tell(&services->client, &buffer, HYTHE_CALL_BYTES);
    }
    /* Without an agent nobody knows of anything that the task has. */
    return result != HYTHE_E_TIMEOUT;
}

int hythe_services_start(struct hythe_services *services,
                         const struct hythe_services_config *config)
{
    if (services == NULL || config == NULL ||
        (uintptr_t)config->segments % HYTHE_SEGMENT_PAGE != 0) {
        return -HYTHE_EINVAL;
    }
    services->segments = config->segments;
    services->segments_bytes = config->segments_bytes;
    services->timeout_ms = config->timeout_ms == 0 ? HYTHE_SERVICES_TIMEOUT_MS : config->timeout_ms;
    services->task_ended = task_ended;
    services->messages.endpoint = NULL;
    if (config->messages != NULL &&
        hythe_client_start(&services->messages, config->messages, config->message_requests,
                           config->message_request_count) != HYTHE_OK) {
        return -HYTHE_EINVAL;
    }
    return error_of(hythe_client_start(&services->client, config->endpoint, config->requests,
                                       config->request_count));
}
