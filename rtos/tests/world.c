/* Memory, port and both sides for one unit test. Called by every test of the library. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"in", HYTHE_TO_CORE, 4096, 0, 0, 0},
    {"out", HYTHE_FROM_CORE, 3840, 7, 0, 0},
    {"in2", HYTHE_TO_CORE, 4096, 0, 0, 0},
    {"out2", HYTHE_FROM_CORE, 4096, 0, 0, 0},
};

static void world_wait(void *context, uint32_t timeout_ms)
{
    struct world *world = context;

    CHECK(!world->locked);
    CHECK(timeout_ms >= 1 && timeout_ms <= HYTHE_WAIT_SLICE_MS);
    world->waits++;
    world->now_ms += timeout_ms;
    if (world->during_wait != NULL) {
        world->during_wait(world);
    }
}

static void world_ring(void *context)
{
    ((struct world *)context)->rings++;
}

static uint32_t world_now(void *context)
{
    return ((struct world *)context)->now_ms;
}

static void world_lock(void *context)
{
    struct world *world = context;

    CHECK(!world->locked);
    world->locked = 1;
}

static void world_unlock(void *context)
{
    struct world *world = context;

    CHECK(world->locked);
    world->locked = 0;
}

static int within(const volatile void *at, size_t bytes, const uint8_t *memory, size_t memory_bytes)
{
    const volatile uint8_t *first = at;

    return first >= memory && bytes <= memory_bytes &&
           (size_t)(first - memory) <= memory_bytes - bytes;
}

static void world_clean(void *context, const volatile void *at, size_t bytes)
{
    struct world *world = context;

    CHECK(within(at, bytes, world->link_memory, world->link_bytes) ||
          within(at, bytes, world->region_memory, world->region_bytes));
    world->cleaned_bytes += (uint32_t)bytes;
    world->cleaned[world->cleaned_count % WORLD_CLEANED_MAX] = at;
    world->cleaned_count++;
}

static void world_invalidate(void *context, const volatile void *at, size_t bytes)
{
    struct world *world = context;

    CHECK(within(at, bytes, world->link_memory, world->link_bytes) ||
          within(at, bytes, world->region_memory, world->region_bytes));
    world->invalidated_bytes += (uint32_t)bytes;
    if (world->before_read != NULL) {
        world->before_read(world, at);
    }
}

static void make_core(struct world *world)
{
    world->port.context = world;
    world->port.wait = world_wait;
    world->port.ring = world_ring;
    world->port.now_ms = world_now;
    world->port.lock = world_lock;
    world->port.unlock = world_unlock;
    world->port.clean = world_clean;
    world->port.invalidate = world_invalidate;

    world->config.link = world->link_memory;
    world->config.link_bytes = world->link_bytes;
    world->config.region = world->region_memory;
    world->config.region_bytes = world->region_bytes;
    world->config.name = "core under test";
    world->config.endpoints = ENDPOINTS;
    world->config.endpoint_count = WORLD_ENDPOINTS;
    world->config.port = &world->port;
}

void world_make(struct world *world)
{
    memset(world, 0, sizeof *world);
    world->link_bytes = 32768;
    world->link_memory = aligned_alloc(4096, world->link_bytes);
    memset(world->link_memory, 0, world->link_bytes);
    world->region_bytes = (size_t)WORLD_SLOTS * WORLD_SLOT_BYTES;
    world->region_memory = aligned_alloc(4096, world->region_bytes);
    memset(world->region_memory, 0, world->region_bytes);

    world->side.link = world->link_memory;
    world->side.line_bytes = 64;
    world->side.section_bytes = 16384;
    world->side.endpoints = 5;
    world->side.ports = WORLD_PORTS;
    world->side.capacity = WORLD_CAPACITY;
    world->side.window = WORLD_WINDOW;
    world->side.region = 2;
    world->side.region_bytes = (uint32_t)world->region_bytes;
    linux_add_class(&world->side, WORLD_SLOT_BYTES, WORLD_SLOTS);
    make_core(world);
}

void world_free(struct world *world)
{
    CHECK(!world->locked);
    free(world->link_memory);
    free(world->region_memory);
}

void world_attach(struct world *world, uint32_t flow)
{
    linux_attach(&world->side, flow);
    CHECK_EQUAL(hythe_link_service(&world->link), HYTHE_OK);
    CHECK(linux_attach_done(&world->side, flow));
}

void world_make_connected(struct world *world)
{
    uint32_t i;

    world_make(world);
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    CHECK_EQUAL(linux_state(&world->side), 1);
    for (i = 0; i < WORLD_ENDPOINTS; i++) {
        world_attach(world, i);
    }
    world->rings = 0;
}

void world_restart_core(struct world *world)
{
    memset(&world->link, 0xA5, sizeof world->link);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
}

struct hythe_endpoint *world_endpoint(struct world *world, uint32_t endpoint)
{
    return hythe_link_endpoint(&world->link, endpoint);
}

struct hythe_counters world_counters(struct world *world, uint32_t endpoint)
{
    struct hythe_counters counters;

    hythe_endpoint_counters(world_endpoint(world, endpoint), &counters);
    return counters;
}

void world_make_with_ports(struct world *world, uint32_t endpoint, uint32_t ports)
{
    uint32_t port;

    world_make_connected(world);
    for (port = 1; port < ports; port++) {
        world_attach(world, LINUX_FLOW(endpoint, port));
    }
    world->rings = 0;
}

struct descriptor world_slot(struct world *world, uint32_t index, uint32_t length)
{
    struct descriptor slot = linux_slot(&world->side, 0, index, length);

    slot.account = 100 + index;
    slot.tag[0] = index;
    slot.tag[1] = ~index;
    return slot;
}

void world_expect(struct world *world, uint32_t flow, struct descriptor sent, uint32_t references)
{
    struct descriptor got = {0};

    CHECK(linux_take(&world->side, flow, &got));
    sent.references = references;
    CHECK(memcmp(&got, &sent, sizeof got) == 0);
}

void world_expect_nothing(struct world *world, uint32_t flow)
{
    struct descriptor got;

    CHECK(!linux_take(&world->side, flow, &got));
}

uint32_t world_dropped(struct world *world, uint32_t flow)
{
    return load(core_flow(&world->side, flow, 16));
}

void world_lease(struct world *world, uint32_t flow, uint32_t index, struct hythe_buffer *buffer)
{
    linux_push(&world->side, flow, world_slot(world, index, 64));
    CHECK_EQUAL(hythe_lease(world_endpoint(world, OUT), buffer, 0), HYTHE_OK);
}

int world_publish_one(struct world *world, uint32_t index, uint32_t timeout_ms)
{
    struct hythe_buffer buffer;
    int result;

    world_lease(world, OUT, index, &buffer);
    result = hythe_publish(&buffer, 10, timeout_ms);
    if (buffer.endpoint != NULL) {
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    return result;
}

void world_take_all(struct world *world, uint32_t flow)
{
    struct descriptor got;

    while (linux_take(&world->side, flow, &got)) {
    }
}
