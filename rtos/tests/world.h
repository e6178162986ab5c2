/*
 * A core and a Linux side over malloc'd memory in one thread, with a port whose time the test
 * moves: what the unit tests of the library begin with. Endpoints: "in" (to core), "out" (from
 * core), "in2" (to core), "out2" (from core).
 */
#ifndef WORLD_H
#define WORLD_H

#include "hythe_rt.h"
#include "linux_side.h"

enum {
    IN = 0,
    OUT = 1,
    IN2 = 2,
    OUT2 = 3,
    WORLD_ENDPOINTS = 4,
    WORLD_PORTS = 8,
    WORLD_CAPACITY = 8,
    /* From core: filled buffers that may wait; the rest of the queue is for empty slots. */
    WORLD_WINDOW = 6,
    WORLD_SLOTS = 32,
    WORLD_SLOT_BYTES = 4096,
    WORLD_CLEANED_MAX = 64
};

struct world {
    uint8_t *link_memory;
    size_t link_bytes;
    uint8_t *region_memory;
    size_t region_bytes;
    struct linux_side side;

    struct hythe_port port;
    struct hythe_link_config config;
    struct hythe_link link;

    /* The port's observations, and its time. */
    uint32_t now_ms;
    uint32_t rings;
    uint32_t waits;
    int locked;
    uint32_t cleaned_bytes;
    /* The latest ranges that were cleaned, the newest at `cleaned_count` - 1. */
    const volatile void *cleaned[WORLD_CLEANED_MAX];
    uint32_t cleaned_count;
    uint32_t invalidated_bytes;
    /* Called in each wait, if set: Linux acts while the core sleeps. */
    void (*during_wait)(struct world *world);
    /*
     * Called before each read of shared memory, if set: Linux acts between two reads of the core.
     */
    void (*before_read)(struct world *world, const volatile void *at);
};

/*
 * Makes memory and both sides; Linux's geometry is filled but not published, the core not started.
 */
void world_make(struct world *world);
void world_free(struct world *world);

/* world_make(), publish, start, attach port 0 of all endpoints. */
void world_make_connected(struct world *world);
/* Attaches one flow and lets the core answer. */
void world_attach(struct world *world, uint32_t flow);
/* A new core over the same memory. */
void world_restart_core(struct world *world);

struct hythe_endpoint *world_endpoint(struct world *world, uint32_t endpoint);
struct hythe_counters world_counters(struct world *world, uint32_t endpoint);

/* ---- Several ports on one endpoint ---- */

/* A connected world whose endpoint `endpoint` has ports 0 to `ports` - 1 attached. */
void world_make_with_ports(struct world *world, uint32_t endpoint, uint32_t ports);
/* Slot `index` with an account and a tag of its own. */
struct descriptor world_slot(struct world *world, uint32_t index, uint32_t length);
/* Linux takes the next entry, and it is `sent` with so many references; or there is none. */
void world_expect(struct world *world, uint32_t flow, struct descriptor sent, uint32_t references);
void world_expect_nothing(struct world *world, uint32_t flow);
void world_take_all(struct world *world, uint32_t flow);
/* The flow's own count of what it missed. */
uint32_t world_dropped(struct world *world, uint32_t flow);
/* Leases from OUT the slot that `flow` supplies now. */
void world_lease(struct world *world, uint32_t flow, uint32_t index, struct hythe_buffer *buffer);
/* Publishes 10 bytes on OUT; what could not go is given back. */
int world_publish_one(struct world *world, uint32_t index, uint32_t timeout_ms);

#endif
