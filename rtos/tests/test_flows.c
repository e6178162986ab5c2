/* Several Linux ports on one endpoint: who gets what, and what one of them costs the others. */
#include <string.h>

#include "test.h"
#include "world.h"

static void eight_ports_send_in_turn_and_get_their_own_back(void)
{
    struct world world;
    struct hythe_buffer buffers[16];
    uint32_t i;

    world_make_with_ports(&world, IN, WORLD_PORTS);
    CHECK_EQUAL(hythe_endpoint_ports(world_endpoint(&world, IN)), WORLD_PORTS);
    for (i = 0; i < 16; i++) {
        linux_push(&world.side, LINUX_FLOW(IN, i / 2), world_slot(&world, i, i));
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
        world_expect(&world, LINUX_FLOW(IN, i), world_slot(&world, 2 * i, 2 * i), 8);
        world_expect(&world, LINUX_FLOW(IN, i), world_slot(&world, 2 * i + 1, 2 * i + 1), 8);
    }
    world_expect(&world, IN, world_slot(&world, 1, 1), 8);
    world_expect_nothing(&world, IN);
    world_free(&world);
}

static void one_message_reaches_all_ports_in_place(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor sent;
    uint32_t port;

    world_make_with_ports(&world, OUT, WORLD_PORTS);
    world_lease(&world, LINUX_FLOW(OUT, 3), 9, &buffer);
    CHECK_EQUAL(buffer.port, 3);
    memset(buffer.data, 0x5A, 64);
    CHECK_EQUAL(hythe_publish(&buffer, 33, 0), HYTHE_OK);
    CHECK_EQUAL(world.rings, 1);
    sent = world_slot(&world, 9, 33);
    for (port = 0; port < WORLD_PORTS; port++) {
        world_expect(&world, LINUX_FLOW(OUT, port), sent, 1);
        world_expect_nothing(&world, LINUX_FLOW(OUT, port));
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
    world_lease(&world, OUT, 1, &buffer);
    CHECK_EQUAL(hythe_publish(&buffer, 64, 0), HYTHE_OK);
    world_expect(&world, OUT, world_slot(&world, 1, 64), 1);
    world_expect(&world, LINUX_FLOW(OUT, 3), world_slot(&world, 1, 64), 1);
    world_expect(&world, LINUX_FLOW(OUT, 5), world_slot(&world, 1, 64), 6);
    /* Fewer references than ports: only so many are reached. */
    few = world_slot(&world, 2, 64);
    few.references = 2;
    linux_push(&world.side, OUT, few);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 64, 0), HYTHE_OK);
    world_expect(&world, OUT, few, 1);
    world_expect(&world, LINUX_FLOW(OUT, 3), few, 1);
    world_expect_nothing(&world, LINUX_FLOW(OUT, 5));
    CHECK_EQUAL(world_dropped(&world, LINUX_FLOW(OUT, 5)), 1);
    CHECK_EQUAL(world_counters(&world, OUT).missed, 1);
    world_free(&world);
}

static void forwarding_reaches_all_ports_and_credits_the_sender(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor sent;

    world_make_with_ports(&world, OUT, 2);
    world_attach(&world, LINUX_FLOW(IN, 4));
    sent = world_slot(&world, 6, 77);
    linux_push(&world.side, LINUX_FLOW(IN, 4), sent);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
    CHECK_EQUAL(world.rings, 2);
    world_expect(&world, OUT, sent, 1);
    world_expect(&world, LINUX_FLOW(OUT, 1), sent, 7);
    sent.length = LINUX_CREDIT;
    world_expect(&world, LINUX_FLOW(IN, 4), sent, 0);
    world_expect_nothing(&world, IN);
    world_free(&world);
}

static void leases_come_from_the_fill_rings_in_turn(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t i;

    world_make_with_ports(&world, OUT, 3);
    linux_push(&world.side, LINUX_FLOW(OUT, 0), world_slot(&world, 0, 64));
    linux_push(&world.side, LINUX_FLOW(OUT, 0), world_slot(&world, 1, 64));
    linux_push(&world.side, LINUX_FLOW(OUT, 2), world_slot(&world, 2, 64));
    for (i = 0; i < 3; i++) {
        static const uint32_t PORTS[3] = {0, 2, 0};
        CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(buffer.port, PORTS[i]);
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    world_free(&world);
}

/* What Linux reads in the record of an endpoint. */
static uint32_t shown(const struct world *world, uint32_t endpoint, uint32_t offset)
{
    return load(core_word(&world->side, 2 * 64 + 64 * endpoint + offset));
}

static void a_full_queue_no_slot_and_a_lost_session_have_codes_and_counters_of_their_own(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct hythe_buffer other;

    world_make_connected(&world);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_E_NO_SLOT);
    CHECK_EQUAL(shown(&world, OUT, 56), 0);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 5), HYTHE_E_NO_SLOT);
    CHECK_EQUAL(shown(&world, OUT, 56), 1);
    while (world_publish_one(&world, 1, 0) == HYTHE_OK) {
    }
    CHECK_EQUAL(shown(&world, OUT, 52), 1);
    world_lease(&world, OUT, 2, &buffer);
    CHECK_EQUAL(hythe_publish(&buffer, 10, 5), HYTHE_E_FULL);
    CHECK_EQUAL(shown(&world, OUT, 52), 2);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 3, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &other, 0), HYTHE_OK);
    linux_detach(&world.side, IN);
    CHECK_EQUAL(hythe_release(&other), HYTHE_STALE);
    CHECK_EQUAL(shown(&world, IN, 60), 1);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &other, 0), HYTHE_E_DETACHED);
    /* A new session of the agent lays the records out anew: the sums stay. */
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_wait(&world.link, 10), HYTHE_OK);
    CHECK_EQUAL(shown(&world, OUT, 52), 2);
    CHECK_EQUAL(shown(&world, OUT, 56), 1);
    CHECK_EQUAL(shown(&world, IN, 60), 1);
    CHECK_EQUAL(shown(&world, IN, 48) + shown(&world, OUT, 48), 0);
    store(linux_word(&world.side, 40), 0);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 5), HYTHE_E_DOWN);
    world_free(&world);
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

    world_make_with_ports(&world, IN, 3);
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

    world_make_with_ports(&world, OUT, 2);
    world_lease(&world, OUT, 3, &buffer);
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
    RUN(sessions_are_read_only_when_linux_says_that_one_changed);
    RUN(caches_are_cleaned_payload_first_then_entries_then_words_then_the_bell);
    RUN(the_link_stays_within_its_promised_size);
    RUN(a_full_queue_no_slot_and_a_lost_session_have_codes_and_counters_of_their_own);
}
