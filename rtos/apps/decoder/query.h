/*
 * Questions for Linux: while a server is attached to `query`, a ping is not echoed but asked, and
 * what came of it is published on `pong`.
 */
#ifndef QUERY_H
#define QUERY_H

#include "hythe_rt.h"

/* Questions that may be open at once. */
#define QUERY_OPEN_MAX 8

/*
 * In front of a ping that is to be asked: how many milliseconds the answer may take, and a number
 * that comes back. In front of the outcome: an enum hythe_result, and that number.
 */
#define QUERY_PREFIX_BYTES 8u

/* One question that is not answered. */
struct query_open {
    uint64_t number;
    uint32_t id;
    uint32_t start_ms;
    uint32_t timeout_ms;
};

struct query {
    struct hythe_endpoint *endpoint;
    struct hythe_endpoint *pong;
    const struct hythe_port *port;
    struct hythe_client client;
    struct hythe_open_request requests[QUERY_OPEN_MAX];
    struct query_open open[QUERY_OPEN_MAX];
    uint32_t open_count;
};

int query_start(struct query *query, struct hythe_endpoint *endpoint, struct hythe_endpoint *pong,
                const struct hythe_port *port);

/* 1: the ping is asked, and given back. 0: nobody is there to be asked; it is still held. */
int query_ask(struct query *query, struct hythe_buffer *ping);

/* Publishes what is answered, or will not be. */
void query_answer(struct query *query);

#endif
