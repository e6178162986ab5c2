/* Methods by which a test has this core use segments (README.md). */
#ifndef SEGMENTS_H
#define SEGMENTS_H

#include "hythe_rpc.h"
#include "hythe_shm.h"

/* Attached at once. */
#define SEGMENTS_ATTACHED_MAX 64
/* For each task that calls. */
#define SEGMENTS_CALLS_MAX 8
#define SEGMENTS_METHODS 8

struct segments {
    struct hythe_services services;
    struct hythe_open_request requests[SEGMENTS_CALLS_MAX];
    struct hythe_open_request message_requests[SEGMENTS_CALLS_MAX];
    struct hythe_shm attached[SEGMENTS_ATTACHED_MAX];
    /* None are made for Linux. */
    volatile uint32_t refuses;
};

/* For the service task: makes a segment for Linux, unless this program refuses. */
int segments_make(void *segments, int32_t key, uint32_t size, uint32_t flags, uint32_t timeout_ms);

/* Writes the methods into a table. */
void segments_methods(struct segments *segments, struct hythe_rpc_method *table);

#endif
