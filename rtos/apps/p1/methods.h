/* What this program does when it is called (README.md). */
#ifndef METHODS_H
#define METHODS_H

#include "hythe_rpc.h"
#include "objects.h"
#include "segments.h"

/* Calls that may be held, and calls of Linux that may be outstanding. */
#define METHODS_HELD_MAX 16

struct methods {
    struct hythe_endpoint *calls;
    struct hythe_client client;
    struct hythe_open_request requests[METHODS_HELD_MAX];
    /* Calls of HOLD that are not answered. */
    struct hythe_rpc_request held[METHODS_HELD_MAX];
    struct hythe_rpc_reply held_reply[METHODS_HELD_MAX];
    uint32_t held_count;
    struct segments *segments;
    struct objects *objects;
};

/* The task that serves; never returns. */
void methods_run(void *methods);

#endif
