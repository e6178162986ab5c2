/*
 * Questions for Linux. One task uses a query. Between two calls no buffer is held, and each open
 * question has an end: a reply, or its time-out.
 */
#include "query.h"

#include <string.h>

/* A subscriber of pong that takes nothing is not waited for longer. */
#define PUBLISH_MS 1000u
/* One look for an empty slot; between two, answers are published. */
#define LEASE_MS 1u

static uint32_t now_ms(const struct query *query)
{
    return query->port->now_ms(query->port->context);
}

static uint32_t read_word(const uint8_t *bytes)
{
    uint32_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

/* `reply` may be NULL. Who does not listen has asked for nothing. */
static void publish(struct query *query, int result, uint32_t id, const struct hythe_buffer *reply)
{
    struct hythe_buffer outcome;
    uint32_t bytes = reply != NULL ? reply->length : 0;
    int32_t code = result;

    if (hythe_lease(query->pong, &outcome, PUBLISH_MS) != HYTHE_OK) {
        return;
    }
    if (bytes > outcome.length - QUERY_PREFIX_BYTES) {
        bytes = outcome.length - QUERY_PREFIX_BYTES;
    }
    memcpy(outcome.data, &code, sizeof code);
    memcpy(outcome.data + 4, &id, sizeof id);
    if (bytes != 0) {
        memcpy(outcome.data + QUERY_PREFIX_BYTES, reply->data, bytes);
    }
    if (hythe_publish(&outcome, QUERY_PREFIX_BYTES + bytes, PUBLISH_MS) < 0) {
        (void)hythe_release(&outcome);
    }
}

int query_start(struct query *query, struct hythe_endpoint *endpoint, struct hythe_endpoint *pong,
                const struct hythe_port *port)
{
    query->endpoint = endpoint;
    query->pong = pong;
    query->port = port;
    query->open_count = 0;
    return hythe_client_start(&query->client, endpoint, query->requests, QUERY_OPEN_MAX);
}

/* Takes an empty slot of any server, and publishes answers as long as there is none. */
static int lease(struct query *query, struct hythe_buffer *request, const struct query_open *open)
{
    int result;

    do {
        result = hythe_request_lease(&query->client, request, LEASE_MS);
        if (result == HYTHE_OK) {
            return HYTHE_OK;
        }
        query_answer(query);
    } while (result == HYTHE_E_TIMEOUT && now_ms(query) - open->start_ms < open->timeout_ms);
    return result;
}

/* Copies the question into the request: a ping may have other readers, so its slot stays. */
static int send(struct query *query, const struct hythe_buffer *ping, struct query_open *open)
{
    struct hythe_buffer request;
    uint32_t bytes = ping->length - QUERY_PREFIX_BYTES;
    int result = lease(query, &request, open);

    if (result != HYTHE_OK) {
        return result;
    }
    if (bytes <= request.length) {
        memcpy(request.data, ping->data + QUERY_PREFIX_BYTES, bytes);
    }
    result = hythe_request_send(&query->client, &request, bytes, &open->number);
    if (request.endpoint != NULL) {
        (void)hythe_release(&request);
    }
    return result;
}

int query_ask(struct query *query, struct hythe_buffer *ping)
{
    struct query_open open;
    int result;

    if (ping->length < QUERY_PREFIX_BYTES || hythe_endpoint_ports(query->endpoint) == 0) {
        return 0;
    }
    open.timeout_ms = read_word(ping->data);
    open.id = read_word(ping->data + 4);
    open.start_ms = now_ms(query);
    result = send(query, ping, &open);
    (void)hythe_release(ping);
    if (result == HYTHE_OK) {
        /* As many as the client takes. */
        query->open[query->open_count++] = open;
    } else {
        publish(query, result, open.id, NULL);
    }
    return 1;
}

void query_answer(struct query *query)
{
    uint32_t i = 0;

    while (i < query->open_count) {
        struct query_open open = query->open[i];
        struct hythe_buffer reply;
        int result = hythe_reply_wait(&query->client, &open.number, &reply, 0);
        if (result == HYTHE_E_TIMEOUT && now_ms(query) - open.start_ms < open.timeout_ms) {
            i++;
            continue;
        }
        if (result == HYTHE_E_TIMEOUT) {
            (void)hythe_request_forget(&query->client, open.number);
        }
        query->open[i] = query->open[--query->open_count];
        publish(query, result, open.id, result == HYTHE_OK ? &reply : NULL);
        if (result == HYTHE_OK) {
            (void)hythe_release(&reply);
        }
    }
}
