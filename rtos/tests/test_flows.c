/* Several Linux ports on one endpoint: who gets what, and what one of them costs the others. */
#include <string.h>

#include "test.h"
#include "world.h"

/* A world whose endpoint `endpoint` has ports 0 to `ports` - 1 attached. */
static void make_with_ports(struct world *world, uint32_t endpoint, uint32_t ports)
{
    uint32_t port;

    world_make_connected(world);
    for (port = 1; port < ports; port++) {
        world_attach(world, LINUX_FLOW(endpoint, port));
    }
    world->rings = 0;
}

static struct descriptor slot_of(struct world *world, uint32_t index, uint32_t length)
{
    struct descriptor slot = linux_slot(&world->side, 0, index, length);

    slot.account = 100 + index;
    slot.tag[0] = index;
    slot.tag[1] = ~index;
    return slot;
}

static void expect(struct world *world, uint32_t flow, struct descriptor sent, uint32_t references)
{
    struct descriptor got = {0};

    CHECK(linux_take(&world->side, flow, &got));
    sent.references = references;
    CHECK(memcmp(&got, &sent, sizeof got) == 0);
}

static void expect_nothing(struct world *world, uint32_t flow)
{
    struct descriptor got;

    CHECK(!linux_take(&world->side, flow, &got));
}

static uint32_t dropped(struct world *world, uint32_t flow)
{
    return load(core_flow(&world->side, flow, 16));
}

/* Leases the slot that `flow` supplies now. */
static void supply_and_lease(struct world *world, uint32_t flow, uint32_t index,
                             struct hythe_buffer *buffer)
{
    linux_push(&world->side, flow, slot_of(world, index, 64));
    CHECK_EQUAL(hythe_lease(world_endpoint(world, OUT), buffer, 0), HYTHE_OK);
}

static int publish_one(struct world *world, uint32_t index, uint32_t timeout_ms)
{
    struct hythe_buffer buffer;
    int result;

    supply_and_lease(world, OUT, index, &buffer);
    result = hythe_publish(&buffer, 10, timeout_ms);
    if (buffer.endpoint != NULL) {
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    return result;
}

static void eight_ports_send_in_turn_and_get_their_own_back(void)
{
    struct world world;
    struct hythe_buffer buffers[16];
    uint32_t i;

    make_with_ports(&world, IN, WORLD_PORTS);
    CHECK_EQUAL(hythe_endpoint_ports(world_endpoint(&world, IN)), WORLD_PORTS);
    for (i = 0; i < 16; i++) {
        linux_push(&world.side, LINUX_FLOW(IN, i / 2), slot_of(&world, i, i));
    }
    for (i = 0; i < 16; i++) {
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffers[i], 0), HYTHE_OK);
        CHECK_EQUAL(buffers[i].port, i % 8);
        CHECK_EQUAL(buffers[i].length, i % 8 * 2 + i / 8);
        CHECK_EQUAL(buffers[i].attachment, buffers[i % 8].attachment);
        CHECK(i % 8 == 0 || buffers[i].attachment != buffers[i - 1].attachment);
    }
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffers[0], 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&world, IN).held, 16);
    for (i = 1; i < 16; i++) {
        CHECK_EQUAL(hythe_release(&buffers[i]), HYTHE_OK);
    }
    for (i = 1; i < 8; i++) {
        expect(&world, LINUX_FLOW(IN, i), slot_of(&world, 2 * i, 2 * i), 8);
        expect(&world, LINUX_FLOW(IN, i), slot_of(&world, 2 * i + 1, 2 * i + 1), 8);
    }
    expect(&world, IN, slot_of(&world, 1, 1), 8);
    expect_nothing(&world, IN);
    world_free(&world);
}

static void one_message_reaches_all_ports_in_place(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor sent;
    uint32_t port;

    make_with_ports(&world, OUT, WORLD_PORTS);
    supply_and_lease(&world, LINUX_FLOW(OUT, 3), 9, &buffer);
    CHECK_EQUAL(buffer.port, 3);
    memset(buffer.data, 0x5A, 64);
    CHECK_EQUAL(hythe_publish(&buffer, 33, 0), HYTHE_OK);
    CHECK_EQUAL(world.rings, 1);
    sent = slot_of(&world, 9, 33);
    for (port = 0; port < WORLD_PORTS; port++) {
        expect(&world, LINUX_FLOW(OUT, port), sent, 1);
        expect_nothing(&world, LINUX_FLOW(OUT, port));
    }
    CHECK_EQUAL(world_counters(&world, OUT).published, 1);
    CHECK_EQUAL(world_counters(&world, OUT).held, 0);
    world_free(&world);
}

static void references_are_divided_and_the_last_port_gets_the_rest(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor few;

    world_make_connected(&world);
    world_attach(&world, LINUX_FLOW(OUT, 3));
    world_attach(&world, LINUX_FLOW(OUT, 5));
    supply_and_lease(&world, OUT, 1, &buffer);
    CHECK_EQUAL(hythe_publish(&buffer, 64, 0), HYTHE_OK);
    expect(&world, OUT, slot_of(&world, 1, 64), 1);
    expect(&world, LINUX_FLOW(OUT, 3), slot_of(&world, 1, 64), 1);
    expect(&world, LINUX_FLOW(OUT, 5), slot_of(&world, 1, 64), 6);
    /* Fewer references than ports: only so many are reached. */
    few = slot_of(&world, 2, 64);
    few.references = 2;
    linux_push(&world.side, OUT, few);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 64, 0), HYTHE_OK);
    expect(&world, OUT, few, 1);
    expect(&world, LINUX_FLOW(OUT, 3), few, 1);
    expect_nothing(&world, LINUX_FLOW(OUT, 5));
    CHECK_EQUAL(dropped(&world, LINUX_FLOW(OUT, 5)), 1);
    CHECK_EQUAL(world_counters(&world, OUT).missed, 1);
    world_free(&world);
}

static void forwarding_reaches_all_ports_and_credits_the_sender(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor sent;

    make_with_ports(&world, OUT, 2);
    world_attach(&world, LINUX_FLOW(IN, 4));
    sent = slot_of(&world, 6, 77);
    linux_push(&world.side, LINUX_FLOW(IN, 4), sent);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
    CHECK_EQUAL(world.rings, 2);
    expect(&world, OUT, sent, 1);
    expect(&world, LINUX_FLOW(OUT, 1), sent, 7);
    sent.length = LINUX_CREDIT;
    expect(&world, LINUX_FLOW(IN, 4), sent, 0);
    expect_nothing(&world, IN);
    world_free(&world);
}

static void leases_come_from_the_fill_rings_in_turn(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t i;

    make_with_ports(&world, OUT, 3);
    linux_push(&world.side, LINUX_FLOW(OUT, 0), slot_of(&world, 0, 64));
    linux_push(&world.side, LINUX_FLOW(OUT, 0), slot_of(&world, 1, 64));
    linux_push(&world.side, LINUX_FLOW(OUT, 2), slot_of(&world, 2, 64));
    for (i = 0; i < 3; i++) {
        static const uint32_t PORTS[3] = {0, 2, 0};
        CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(buffer.port, PORTS[i]);
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    world_free(&world);
}

static void take_all(struct world *world, uint32_t flow)
{
    struct descriptor got;

    while (linux_take(&world->side, flow, &got)) {
    }
}

static void a_stopped_port_costs_its_own_messages_only_and_is_waited_for_once(void)
{
    struct world world;
    struct descriptor got;
    uint32_t stopped = LINUX_FLOW(OUT, 1);
    uint32_t i;

    make_with_ports(&world, OUT, 2);
    for (i = 0; i < WORLD_WINDOW; i++) {
        CHECK_EQUAL(publish_one(&world, i, 25), HYTHE_OK);
        take_all(&world, OUT);
    }
    CHECK_EQUAL(world.waits, 0);
    /* Waited for once, in vain; from then on not at all. */
    CHECK_EQUAL(publish_one(&world, 10, 25), HYTHE_OK);
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(dropped(&world, stopped), 1);
    for (i = 0; i < 5; i++) {
        expect(&world, OUT, slot_of(&world, 10 + i, 10), 8);
        CHECK_EQUAL(publish_one(&world, 11 + i, 25), HYTHE_OK);
    }
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(dropped(&world, stopped), 6);
    CHECK_EQUAL(dropped(&world, OUT), 0);
    CHECK_EQUAL(world_counters(&world, OUT).missed, 6);
    CHECK_EQUAL(world_counters(&world, OUT).published, WORLD_WINDOW + 6);
    /* It goes on: the next message reaches it, and when it stops again it is waited for again. */
    CHECK(linux_take(&world.side, stopped, &got));
    take_all(&world, OUT);
    CHECK_EQUAL(publish_one(&world, 20, 25), HYTHE_OK);
    CHECK_EQUAL(dropped(&world, stopped), 6);
    CHECK_EQUAL(publish_one(&world, 21, 25), HYTHE_OK);
    CHECK_EQUAL(world.waits, 6);
    CHECK_EQUAL(dropped(&world, stopped), 7);
    world_free(&world);
}

static void a_message_that_no_port_can_take_is_kept_and_not_missed(void)
{
    struct world world;
    uint32_t i;

    make_with_ports(&world, OUT, 2);
    for (i = 0; i < WORLD_WINDOW; i++) {
        CHECK_EQUAL(publish_one(&world, i, 0), HYTHE_OK);
    }
    /* Each time: a program that tries again must not be kept from sleeping. */
    CHECK_EQUAL(publish_one(&world, 10, 25), HYTHE_E_FULL);
    CHECK_EQUAL(world.waits, 3);
    CHECK_EQUAL(publish_one(&world, 10, 25), HYTHE_E_FULL);
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

    make_with_ports(&world, OUT, 2);
    for (i = 0; i < WORLD_WINDOW; i++) {
        CHECK_EQUAL(publish_one(&world, i, 0), HYTHE_OK);
        take_all(&world, OUT);
    }
    world.during_wait = take_from_second;
    CHECK_EQUAL(publish_one(&world, 20, 1000), HYTHE_OK);
    CHECK_EQUAL(world.waits, 2);
    CHECK_EQUAL(dropped(&world, LINUX_FLOW(OUT, 1)), 0);
    world_free(&world);
}

static void a_killed_port_comes_back_while_others_go_on(void)
{
    struct world world;
    struct hythe_buffer held;
    struct hythe_buffer buffer;
    uint32_t killed = LINUX_FLOW(IN, 2);
    uint32_t i;

    make_with_ports(&world, IN, 3);
    linux_push(&world.side, killed, slot_of(&world, 1, 1));
    linux_push(&world.side, killed, slot_of(&world, 2, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &held, 0), HYTHE_OK);
    linux_detach(&world.side, killed);
    for (i = 0; i < 20; i++) {
        uint32_t flow = LINUX_FLOW(IN, i % 2);
        linux_push(&world.side, flow, slot_of(&world, i, i));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(buffer.length, i);
        CHECK_EQUAL(buffer.port, i % 2);
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
        expect(&world, flow, slot_of(&world, i, i), 8);
    }
    CHECK_EQUAL(hythe_endpoint_ports(world_endpoint(&world, IN)), 2);
    CHECK(load(core_flow(&world.side, killed, 0)) != 0);
    CHECK(hythe_buffer_is_stale(&held));
    CHECK_EQUAL(hythe_release(&held), HYTHE_STALE);
    CHECK_EQUAL(load(core_flow(&world.side, killed, 0)), 0);
    world_attach(&world, killed);
    linux_push(&world.side, killed, slot_of(&world, 3, 3));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &held, 0), HYTHE_OK);
    CHECK_EQUAL(held.length, 3);
    world_free(&world);
}

static void a_message_outlives_the_port_that_supplied_its_slot(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t supplier = LINUX_FLOW(OUT, 1);

    make_with_ports(&world, OUT, 3);
    supply_and_lease(&world, supplier, 4, &buffer);
    linux_detach(&world.side, supplier);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK(hythe_buffer_is_stale(&buffer));
    CHECK(load(core_flow(&world.side, supplier, 0)) != 0);
    CHECK_EQUAL(hythe_publish(&buffer, 12, 0), HYTHE_OK);
    /* The end of the flow is answered once the message is delivered. */
    CHECK_EQUAL(load(core_flow(&world.side, supplier, 0)), 0);
    expect(&world, OUT, slot_of(&world, 4, 12), 1);
    expect(&world, LINUX_FLOW(OUT, 2), slot_of(&world, 4, 12), 7);
    expect_nothing(&world, supplier);
    /* With nobody else there, it is dropped. */
    supply_and_lease(&world, OUT, 5, &buffer);
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

    make_with_ports(&world, IN, 3);
    for (port = 0; port < 3; port++) {
        linux_push(&world.side, LINUX_FLOW(IN, port), slot_of(&world, port, port));
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

    make_with_ports(&world, IN, 2);
    bad = slot_of(&world, 1, 1);
    bad.references = 0;
    for (i = 0; i < WORLD_CAPACITY; i++) {
        linux_push(&world.side, IN, bad);
    }
    linux_push(&world.side, LINUX_FLOW(IN, 1), slot_of(&world, 2, 2));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(buffer.port, 1);
    CHECK_EQUAL(world_counters(&world, IN).violations, WORLD_CAPACITY);
    world_free(&world);
}

static void a_broken_reader_stops_no_other(void)
{
    struct world world;
    struct hythe_buffer buffer;

    make_with_ports(&world, OUT, 3);
    CHECK_EQUAL(publish_one(&world, 1, 0), HYTHE_OK);
    store(linux_flow(&world.side, LINUX_FLOW(OUT, 1), 12), 77);
    CHECK_EQUAL(publish_one(&world, 2, 1000), HYTHE_OK);
    CHECK_EQUAL(world.waits, 0);
    CHECK_EQUAL(world_counters(&world, OUT).violations, 1);
    take_all(&world, OUT);
    take_all(&world, LINUX_FLOW(OUT, 2));
    supply_and_lease(&world, OUT, 3, &buffer);
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
        make_with_ports(&world, OUT, 1);
        world.side.window = WINDOWS[i];
        world_attach(&world, LINUX_FLOW(OUT, 1));
        /* It means nothing for a to-core endpoint. */
        world_attach(&world, LINUX_FLOW(IN, 1));
        CHECK_EQUAL(world_counters(&world, OUT).violations, 1);
        CHECK_EQUAL(world_counters(&world, IN).violations, 0);
        CHECK_EQUAL(publish_one(&world, 1, 0), HYTHE_OK);
        CHECK_EQUAL(publish_one(&world, 2, 0), HYTHE_OK);
        CHECK_EQUAL(dropped(&world, LINUX_FLOW(OUT, 1)), 1);
        expect(&world, OUT, slot_of(&world, 1, 10), 1);
        expect(&world, OUT, slot_of(&world, 2, 10), 8);
        world_free(&world);
    }
}

/* Counts reads of session words of flow lines. */
static uint32_t session_reads;

static void count_session_reads(struct world *world, const volatile void *at)
{
    uint32_t flow;

    for (flow = 0; flow < WORLD_ENDPOINTS * LINUX_ENDPOINTS_MAX; flow++) {
        uint32_t name = LINUX_FLOW(flow / WORLD_PORTS, flow % WORLD_PORTS);
        session_reads += flow < WORLD_ENDPOINTS * WORLD_PORTS &&
                         at == (const volatile void *)linux_flow(&world->side, name, 0);
    }
}

static void sessions_are_read_only_when_linux_says_that_one_changed(void)
{
    struct world world;

    make_with_ports(&world, IN, 3);
    session_reads = 0;
    world.before_read = count_session_reads;
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK_EQUAL(session_reads, 0);
    linux_attach(&world.side, LINUX_FLOW(OUT2, 7));
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK(session_reads >= WORLD_ENDPOINTS * WORLD_PORTS);
    CHECK(linux_attach_done(&world.side, LINUX_FLOW(OUT2, 7)));
    session_reads = 0;
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK_EQUAL(session_reads, 0);
    world_free(&world);
}

static void caches_are_cleaned_payload_first_then_entries_then_words_then_the_bell(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t at = 0;
    uint32_t port;

    make_with_ports(&world, OUT, 2);
    supply_and_lease(&world, OUT, 3, &buffer);
    world.cleaned_count = 0;
    CHECK_EQUAL(hythe_publish(&buffer, 10, 0), HYTHE_OK);
    CHECK(world.cleaned[at++] == world.region_memory + 3 * WORLD_SLOT_BYTES);
    for (port = 0; port < 2; port++) {
        uint32_t flow = LINUX_FLOW(OUT, port);
        CHECK(world.cleaned[at++] == core_entry(&world.side, flow, 0));
        CHECK(world.cleaned[at++] == core_flow(&world.side, flow, 8));
    }
    CHECK(world.cleaned[at++] == core_word(&world.side, 64));
    CHECK_EQUAL(world.cleaned_count, at);
    world_free(&world);
}

static void the_link_stays_within_its_promised_size(void)
{
    CHECK(sizeof(struct hythe_flow) == 32);
    CHECK(sizeof(struct hythe_endpoint) <= 128 + 32 * HYTHE_MAX_PORTS);
    /* Pointers of 64 bits cost more than the cores' own. */
    CHECK(sizeof(struct hythe_link) <=
          200 + 8 * 5 + HYTHE_MAX_ENDPOINTS * sizeof(struct hythe_endpoint));
}

void test_flows(void)
{
    RUN(eight_ports_send_in_turn_and_get_their_own_back);
    RUN(one_message_reaches_all_ports_in_place);
    RUN(references_are_divided_and_the_last_port_gets_the_rest);
    RUN(forwarding_reaches_all_ports_and_credits_the_sender);
    RUN(leases_come_from_the_fill_rings_in_turn);
    RUN(a_stopped_port_costs_its_own_messages_only_and_is_waited_for_once);
    RUN(a_message_that_no_port_can_take_is_kept_and_not_missed);
    RUN(a_port_that_takes_in_time_misses_nothing);
    RUN(a_killed_port_comes_back_while_others_go_on);
    RUN(a_message_outlives_the_port_that_supplied_its_slot);
    RUN(a_broken_port_stops_no_other);
    RUN(a_ring_full_of_garbage_is_skipped_once);
    RUN(a_broken_reader_stops_no_other);
    RUN(a_window_out_of_range_counts_as_one);
    RUN(sessions_are_read_only_when_linux_says_that_one_changed);
    RUN(caches_are_cleaned_payload_first_then_entries_then_words_then_the_bell);
    RUN(the_link_stays_within_its_promised_size);
}
