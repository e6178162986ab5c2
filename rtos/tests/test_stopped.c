/* What a port that stops, leaves or lies costs the other ports of its endpoint: nothing. */
#include "test.h"
#include "world.h"

static void a_stopped_port_costs_its_own_messages_only_and_is_waited_for_once(void)
{
    struct world world;
    struct descriptor got;
    uint32_t stopped = LINUX_FLOW(OUT, 1);
    uint32_t i;

    world_make_with_ports(&world, OUT, 2);
    for (i = 0; i < WORLD_WINDOW; i++) {
        CHECK_EQUAL(world_publish_one(&world, i, 25), HYTHE_OK);
        world_take_all(&world, OUT);
    }
    CHECK_EQUAL(world.waits, 0);
    /* Waited for once, in vain; from then on not at all. */
    CHECK_EQUAL(world_publish_one(&world, 10, 25), HYTHE_OK);
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(world_dropped(&world, stopped), 1);
    for (i = 0; i < 5; i++) {
        world_expect(&world, OUT, world_slot(&world, 10 + i, 10), 8);
        CHECK_EQUAL(world_publish_one(&world, 11 + i, 25), HYTHE_OK);
    }
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(world_dropped(&world, stopped), 6);
    CHECK_EQUAL(world_dropped(&world, OUT), 0);
    CHECK_EQUAL(world_counters(&world, OUT).missed, 6);
    CHECK_EQUAL(world_counters(&world, OUT).published, WORLD_WINDOW + 6);
    /* It goes on: the next message reaches it, and when it stops again it is waited for again. */
    CHECK(linux_take(&world.side, stopped, &got));
    world_take_all(&world, OUT);
    CHECK_EQUAL(world_publish_one(&world, 20, 25), HYTHE_OK);
    CHECK_EQUAL(world_dropped(&world, stopped), 6);
    CHECK_EQUAL(world_publish_one(&world, 21, 25), HYTHE_OK);
    CHECK_EQUAL(world.waits, 6);
    CHECK_EQUAL(world_dropped(&world, stopped), 7);
    world_free(&world);
}

static void a_message_that_no_port_can_take_is_kept_and_not_missed(void)
{
    struct world world;
    uint32_t i;

    world_make_with_ports(&world, OUT, 2);
    for (i = 0; i < WORLD_WINDOW; i++) {
        CHECK_EQUAL(world_publish_one(&world, i, 0), HYTHE_OK);
    }
    /* Each time: a program that tries again must not be kept from sleeping. */
    CHECK_EQUAL(world_publish_one(&world, 10, 25), HYTHE_E_FULL);
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(world_publish_one(&world, 10, 25), HYTHE_E_FULL);
    CHECK_EQUAL(world.waits, 6);
    CHECK_EQUAL(world_counters(&world, OUT).missed, 0);
    world_free(&world);
}

static void take_from_second(struct world *world)
{
    struct descriptor got;

    if (world->waits == 2) {
        CHECK(linux_take(&world->side, LINUX_FLOW(OUT, 1), &got));
    }
}

static void a_port_that_takes_in_time_misses_nothing(void)
{
    struct world world;
    uint32_t i;

    world_make_with_ports(&world, OUT, 2);
    for (i = 0; i < WORLD_WINDOW; i++) {
        CHECK_EQUAL(world_publish_one(&world, i, 0), HYTHE_OK);
        world_take_all(&world, OUT);
    }
    world.during_wait = take_from_second;
    CHECK_EQUAL(world_publish_one(&world, 20, 1000), HYTHE_OK);
    CHECK_EQUAL(world.waits, 2);
    CHECK_EQUAL(world_dropped(&world, LINUX_FLOW(OUT, 1)), 0);
    world_free(&world);
}

static void a_killed_port_comes_back_while_others_go_on(void)
{
    struct world world;
    struct hythe_buffer held;
    struct hythe_buffer buffer;
    uint32_t killed = LINUX_FLOW(IN, 2);
    uint32_t i;

    world_make_with_ports(&world, IN, 3);
    linux_push(&world.side, killed, world_slot(&world, 1, 1));
    linux_push(&world.side, killed, world_slot(&world, 2, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &held, 0), HYTHE_OK);
    linux_detach(&world.side, killed);
    for (i = 0; i < 20; i++) {
        uint32_t flow = LINUX_FLOW(IN, i % 2);
        linux_push(&world.side, flow, world_slot(&world, i, i));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(buffer.length, i);
        CHECK_EQUAL(buffer.port, i % 2);
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
        world_expect(&world, flow, world_slot(&world, i, i), 8);
    }
    CHECK_EQUAL(hythe_endpoint_ports(world_endpoint(&world, IN)), 2);
    CHECK(load(core_flow(&world.side, killed, 0)) != 0);
    CHECK(hythe_buffer_is_stale(&held));
    CHECK_EQUAL(hythe_release(&held), HYTHE_STALE);
    CHECK_EQUAL(load(core_flow(&world.side, killed, 0)), 0);
    world_attach(&world, killed);
    linux_push(&world.side, killed, world_slot(&world, 3, 3));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &held, 0), HYTHE_OK);
    CHECK_EQUAL(held.length, 3);
    world_free(&world);
}

static void a_message_outlives_the_port_that_supplied_its_slot(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t supplier = LINUX_FLOW(OUT, 1);

    world_make_with_ports(&world, OUT, 3);
    world_lease(&world, supplier, 4, &buffer);
    linux_detach(&world.side, supplier);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK(hythe_buffer_is_stale(&buffer));
    CHECK(load(core_flow(&world.side, supplier, 0)) != 0);
    CHECK_EQUAL(hythe_publish(&buffer, 12, 0), HYTHE_OK);
    /* The end of the flow is answered once the message is delivered. */
    CHECK_EQUAL(load(core_flow(&world.side, supplier, 0)), 0);
    world_expect(&world, OUT, world_slot(&world, 4, 12), 1);
    world_expect(&world, LINUX_FLOW(OUT, 2), world_slot(&world, 4, 12), 7);
    world_expect_nothing(&world, supplier);
    /* With nobody else there, it is dropped. */
    world_lease(&world, OUT, 5, &buffer);
    linux_detach(&world.side, OUT);
    linux_detach(&world.side, LINUX_FLOW(OUT, 2));
    CHECK_EQUAL(hythe_publish(&buffer, 12, 100), HYTHE_STALE);
    CHECK_EQUAL(world.waits, 0);
    CHECK_EQUAL(hythe_endpoint_ports(world_endpoint(&world, OUT)), 0);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_E_DETACHED);
    world_free(&world);
}

static void a_broken_port_stops_no_other(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t port;

    world_make_with_ports(&world, IN, 3);
    for (port = 0; port < 3; port++) {
        linux_push(&world.side, LINUX_FLOW(IN, port), world_slot(&world, port, port));
    }
    store(linux_flow(&world.side, LINUX_FLOW(IN, 1), 8), 0x80000000u);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(buffer.port, 2);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK_EQUAL(world_counters(&world, IN).violations, 1);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    store(linux_flow(&world.side, LINUX_FLOW(IN, 0), 8), 0x80000000u);
    store(linux_flow(&world.side, LINUX_FLOW(IN, 2), 8), 0x80000000u);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_QUARANTINED);
    world_attach(&world, LINUX_FLOW(IN, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    world_free(&world);
}

static void a_ring_full_of_garbage_is_skipped_once(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor bad;
    uint32_t i;

    world_make_with_ports(&world, IN, 2);
    bad = world_slot(&world, 1, 1);
    bad.references = 0;
    for (i = 0; i < WORLD_CAPACITY; i++) {
        linux_push(&world.side, IN, bad);
    }
    linux_push(&world.side, LINUX_FLOW(IN, 1), world_slot(&world, 2, 2));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(buffer.port, 1);
    CHECK_EQUAL(world_counters(&world, IN).violations, WORLD_CAPACITY);
    world_free(&world);
}

static void a_broken_reader_stops_no_other(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_with_ports(&world, OUT, 3);
    CHECK_EQUAL(world_publish_one(&world, 1, 0), HYTHE_OK);
    store(linux_flow(&world.side, LINUX_FLOW(OUT, 1), 12), 77);
    CHECK_EQUAL(world_publish_one(&world, 2, 1000), HYTHE_OK);
    CHECK_EQUAL(world.waits, 0);
    CHECK_EQUAL(world_counters(&world, OUT).violations, 1);
    world_take_all(&world, OUT);
    world_take_all(&world, LINUX_FLOW(OUT, 2));
    world_lease(&world, OUT, 3, &buffer);
    store(linux_flow(&world.side, OUT, 12), 77);
    store(linux_flow(&world.side, LINUX_FLOW(OUT, 2), 12), 77);
    CHECK_EQUAL(hythe_publish(&buffer, 1, 1000), HYTHE_E_QUARANTINED);
    CHECK(buffer.endpoint == NULL);
    world_free(&world);
}

static void a_window_out_of_range_counts_as_one(void)
{
    static const uint32_t WINDOWS[] = {0, WORLD_CAPACITY + 1, 0x10000, 0xFFFFFFFFu};
    uint32_t i;

    for (i = 0; i < sizeof WINDOWS / sizeof WINDOWS[0]; i++) {
        struct world world;
        world_make_with_ports(&world, OUT, 1);
        world.side.window = WINDOWS[i];
        world_attach(&world, LINUX_FLOW(OUT, 1));
        /* It means nothing for a to-core endpoint. */
        world_attach(&world, LINUX_FLOW(IN, 1));
        CHECK_EQUAL(world_counters(&world, OUT).violations, 1);
        CHECK_EQUAL(world_counters(&world, IN).violations, 0);
        CHECK_EQUAL(world_publish_one(&world, 1, 0), HYTHE_OK);
        CHECK_EQUAL(world_publish_one(&world, 2, 0), HYTHE_OK);
        CHECK_EQUAL(world_dropped(&world, LINUX_FLOW(OUT, 1)), 1);
        world_expect(&world, OUT, world_slot(&world, 1, 10), 1);
        world_expect(&world, OUT, world_slot(&world, 2, 10), 8);
        world_free(&world);
    }
}

void test_stopped(void)
{
    RUN(a_stopped_port_costs_its_own_messages_only_and_is_waited_for_once);
    RUN(a_message_that_no_port_can_take_is_kept_and_not_missed);
    RUN(a_port_that_takes_in_time_misses_nothing);
    RUN(a_killed_port_comes_back_while_others_go_on);
    RUN(a_message_outlives_the_port_that_supplied_its_slot);
    RUN(a_broken_port_stops_no_other);
    RUN(a_ring_full_of_garbage_is_skipped_once);
    RUN(a_broken_reader_stops_no_other);
    RUN(a_window_out_of_range_counts_as_one);
}
