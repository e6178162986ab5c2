/* Requests of Linux: answered where they lie, over the flow that they came with. */
#include <string.h>

#include "test.h"
#include "world.h"

/* IN takes requests here; OUT carries messages. */
static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"ask", HYTHE_TO_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {"out", HYTHE_FROM_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {"in", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {"events", HYTHE_TO_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
};

static void make(struct world *world)
{
    uint32_t port;

    world_make(world);
    world->config.endpoints = ENDPOINTS;
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    for (port = 0; port < 3; port++) {
        world_attach(world, LINUX_FLOW(IN, port));
    }
    world_attach(world, LINUX_FLOW(OUT, 0));
}

/* Where a slot's header is: kind, reserved, number. */
static uint32_t *header(struct world *world, uint32_t slot)
{
    return (uint32_t *)(void *)(world->region_memory + (size_t)slot * WORLD_SLOT_BYTES);
}

static void ask(struct world *world, uint32_t port, uint32_t slot)
{
    header(world, slot)[0] = 1;
    header(world, slot)[2] = 100 + slot;
    linux_push(&world->side, LINUX_FLOW(IN, port), linux_slot(&world->side, 0, slot, 8));
}

static void replies_go_to_the_port_that_asked_in_any_order(void)
{
    struct world world;
    struct hythe_buffer request[3];
    struct descriptor got;
    uint32_t port;

    make(&world);
    for (port = 0; port < 3; port++) {
        ask(&world, port, port);
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &request[port], 0), HYTHE_OK);
        CHECK_EQUAL(hythe_reply_capacity(&request[port]), WORLD_SLOT_BYTES - 256);
    }
    for (port = 3; port-- > 0;) {
        memset(request[port].data, (int)port + 1, 300);
        CHECK_EQUAL(hythe_reply(&request[port], 300), HYTHE_OK);
        CHECK(request[port].endpoint == NULL);
        CHECK(linux_take(&world.side, LINUX_FLOW(IN, port), &got));
        CHECK_EQUAL(got.length, 300);
        CHECK_EQUAL(got.place, linux_slot(&world.side, 0, port, 8).place);
        CHECK_EQUAL(header(&world, port)[0], 2);
        CHECK_EQUAL(header(&world, port)[2], 100 + port);
    }
    CHECK_EQUAL(world_counters(&world, IN).held, 0);
    world_free(&world);
}

static void a_request_that_is_released_is_given_up(void)
{
    struct world world;
    struct hythe_buffer request;
    struct descriptor got;

    make(&world);
    ask(&world, 1, 4);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &request, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&request), HYTHE_OK);
    CHECK(linux_take(&world.side, LINUX_FLOW(IN, 1), &got));
    CHECK_EQUAL(got.length, 0);
    CHECK_EQUAL(header(&world, 4)[0], 3);
    world_free(&world);
}

static void what_is_no_reply_is_refused_and_held(void)
{
    struct world world;
    struct hythe_buffer request;
    struct hythe_buffer other = {0};

    make(&world);
    ask(&world, 0, 2);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &request, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_reply(&request, WORLD_SLOT_BYTES - 255), HYTHE_E_LENGTH);
    CHECK_EQUAL(hythe_reply(&request, UINT32_MAX), HYTHE_E_LENGTH);
    CHECK_EQUAL(hythe_forward(&request, world_endpoint(&world, OUT), 0), HYTHE_E_ARGUMENT);
    CHECK(request.endpoint != NULL);
    CHECK_EQUAL(hythe_reply(NULL, 1), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_reply(&other, 1), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_reply_capacity(&other), 0);

    world_attach(&world, LINUX_FLOW(IN2, 0));
    linux_push(&world.side, LINUX_FLOW(IN2, 0), linux_slot(&world.side, 0, 5, 8));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN2), &other, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_reply(&other, 8), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_release(&other), HYTHE_OK);

    /* The client has gone: nobody gets the reply. */
    linux_detach(&world.side, LINUX_FLOW(IN, 0));
    CHECK_EQUAL(hythe_reply(&request, 8), HYTHE_STALE);
    world_free(&world);
}

void test_requests(void)
{
    RUN(replies_go_to_the_port_that_asked_in_any_order);
    RUN(a_request_that_is_released_is_given_up);
    RUN(what_is_no_reply_is_refused_and_held);
}
