/* Buffers in both directions with a well-behaved Linux. Lies: test_hostile.c. */
#include <string.h>

#include "test.h"
#include "world.h"

/* Takes the next descriptor of the core and checks it. */
static void expect(struct world *world, uint32_t endpoint, struct descriptor sent, uint32_t length)
{
    struct descriptor got = {0};

    CHECK(linux_take(&world->side, endpoint, &got));
    CHECK_EQUAL(got.place, sent.place);
    CHECK_EQUAL(got.generation, sent.generation);
    CHECK_EQUAL(got.offset, sent.offset);
    CHECK_EQUAL(got.length, length);
    CHECK_EQUAL(got.account, sent.account);
    CHECK_EQUAL(got.references, length == LINUX_CREDIT ? 0 : sent.references);
    CHECK(got.tag[0] == sent.tag[0] && got.tag[1] == sent.tag[1]);
}

static void expect_nothing(struct world *world, uint32_t endpoint)
{
    struct descriptor got;

    CHECK(!linux_take(&world->side, endpoint, &got));
}

static void a_filled_buffer_arrives_in_place_and_comes_back(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor sent;

    world_make_connected(&world);
    sent = linux_slot(&world.side, 0, 5, 1000);
    sent.generation = 0xFFFFFF;
    sent.account = 0xFFFFFFFFu;
    sent.references = 5;
    sent.tag[0] = 0x12345678u;
    sent.tag[1] = 0x9ABCDEF0u;
    world.region_memory[5 * WORLD_SLOT_BYTES + 256] = 42;
    linux_push(&world.side, IN, sent);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK(buffer.slot == world.region_memory + 5 * WORLD_SLOT_BYTES);
    CHECK(buffer.data == buffer.slot + 256);
    CHECK_EQUAL(buffer.data[0], 42);
    CHECK_EQUAL(buffer.length, 1000);
    CHECK_EQUAL(world_counters(&world, IN).held, 1);
    CHECK_EQUAL(load(core_flow(&world.side, IN, 12)), world.side.tail[IN]);
    CHECK_EQUAL(world.rings, 0);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK_EQUAL(world.rings, 1);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_E_ARGUMENT);
    expect(&world, IN, sent, 1000);
    expect_nothing(&world, IN);
    CHECK_EQUAL(world_counters(&world, IN).held, 0);
    CHECK_EQUAL(world_counters(&world, IN).returned, 1);
    CHECK(world.invalidated_bytes >= 1000);
    world_free(&world);
}

static void parts_of_one_slot_come_back_one_by_one(void)
{
    struct world world;
    struct hythe_buffer first;
    struct hythe_buffer second;
    struct descriptor parts[2];

    world_make_connected(&world);
    parts[0] = linux_slot(&world.side, 0, 3, 100);
    parts[1] = parts[0];
    parts[1].offset = 356;
    parts[1].length = 4096 - 356;
    linux_push(&world.side, IN, parts[0]);
    linux_push(&world.side, IN, parts[1]);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &first, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &second, 0), HYTHE_OK);
    CHECK(second.slot == first.slot && second.data == first.data + 100);
    CHECK_EQUAL(hythe_release(&second), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&first), HYTHE_OK);
    expect(&world, IN, parts[1], 4096 - 356);
    expect(&world, IN, parts[0], 100);
    world_free(&world);
}

static void a_leased_slot_is_filled_and_published(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor empty;

    world_make_connected(&world);
    empty = linux_slot(&world.side, 0, 7, WORLD_SLOT_BYTES - 256);
    linux_push(&world.side, OUT, empty);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(buffer.length, WORLD_SLOT_BYTES - 256);
    memset(buffer.data, 0x5A, 300);
    CHECK_EQUAL(hythe_publish(&buffer, buffer.length + 1, 0), HYTHE_E_LENGTH);
    CHECK_EQUAL(hythe_publish(&buffer, UINT32_MAX, 0), HYTHE_E_LENGTH);
    CHECK(buffer.endpoint != NULL);
    world.cleaned_bytes = 0;
    CHECK_EQUAL(hythe_publish(&buffer, 300, 0), HYTHE_OK);
    CHECK(world.cleaned_bytes >= 256 + 300);
    CHECK_EQUAL(hythe_publish(&buffer, 300, 0), HYTHE_E_ARGUMENT);
    expect(&world, OUT, empty, 300);
    CHECK_EQUAL(world.region_memory[7 * WORLD_SLOT_BYTES + 256 + 299], 0x5A);
    CHECK_EQUAL(world_counters(&world, OUT).published, 1);
    world_free(&world);
}

static void unused_slots_and_empty_payloads_are_told_apart(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor empty;

    world_make_connected(&world);
    empty = linux_slot(&world.side, 0, 1, 64);
    linux_push(&world.side, OUT, empty);
    linux_push(&world.side, OUT, empty);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 0, 0), HYTHE_OK);
    expect(&world, OUT, empty, LINUX_UNUSED);
    expect(&world, OUT, empty, 0);
    CHECK_EQUAL(world_counters(&world, OUT).returned, 1);
    world_free(&world);
}

static void a_wrong_direction_is_our_own_bug(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, OUT), &buffer, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_receive(NULL, &buffer, 0), HYTHE_E_ARGUMENT);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 1, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, IN2), 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_forward(&buffer, NULL, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK_EQUAL(hythe_release(NULL), HYTHE_E_ARGUMENT);
    world_free(&world);
}

static void forwarding_gives_the_buffer_to_one_and_a_credit_to_the_other(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor sent;

    world_make_connected(&world);
    sent = linux_slot(&world.side, 0, 9, 77);
    sent.offset = 300;
    linux_push(&world.side, IN, sent);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
    CHECK(buffer.endpoint == NULL);
    expect(&world, OUT, sent, 77);
    expect(&world, IN, sent, LINUX_CREDIT);
    CHECK_EQUAL(world_counters(&world, IN).forwarded, 1);
    CHECK_EQUAL(world_counters(&world, IN).held, 0);
    world_free(&world);
}

static void forwarding_to_no_port_keeps_the_buffer(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    linux_detach(&world.side, OUT);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK_EQUAL(load(core_flow(&world.side, OUT, 0)), 0);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 9, 77));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 50), HYTHE_E_DETACHED);
    expect_nothing(&world, IN);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT2), 0), HYTHE_OK);
    world_free(&world);
}

static void take_one_from_out(struct world *world)
{
    struct descriptor got;

    CHECK(linux_take(&world->side, OUT, &got));
    world->during_wait = NULL;
}

static void a_full_window_waits_and_then_gives_up(void)
{
    struct world world;
    struct descriptor got;
    struct hythe_buffer buffer;
    uint32_t i;

    world_make_connected(&world);
    linux_push(&world.side, OUT, linux_slot(&world.side, 0, 31, 64));
    for (i = 0; i <= WORLD_WINDOW; i++) {
        linux_push(&world.side, IN, linux_slot(&world.side, 0, i, 1));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        if (i < WORLD_WINDOW) {
            struct descriptor credit;
            CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
            CHECK(linux_take(&world.side, IN, &credit));
        }
    }
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 25), HYTHE_E_FULL);
    CHECK_EQUAL(world.waits, 3);
    world.during_wait = take_one_from_out;
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 25), HYTHE_OK);
    CHECK_EQUAL(world_counters(&world, OUT).missed, 0);
    /* Publishing finds the same full window; an unused slot can always go back. */
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 1, 15), HYTHE_E_FULL);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    linux_push(&world.side, OUT, linux_slot(&world.side, 0, 31, 64));
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 1, 15), HYTHE_E_FULL);
    CHECK(linux_take(&world.side, OUT, &got));
    world.during_wait = take_one_from_out;
    CHECK_EQUAL(hythe_publish(&buffer, 1, 15), HYTHE_OK);
    CHECK_EQUAL(load(core_flow(&world.side, OUT, 16)), 0);
    CHECK_EQUAL(world_counters(&world, OUT).violations, 0);
    world_free(&world);
}

static void push_to_in(struct world *world)
{
    if (world->waits == 3) {
        linux_push(&world->side, IN, linux_slot(&world->side, 0, 1, 1));
    }
}

static void a_wait_is_bounded_and_ends_early_with_a_buffer(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    world.now_ms = 0xFFFFFFF0u;
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 45), HYTHE_E_TIMEOUT);
    CHECK(buffer.endpoint == NULL);
    CHECK_EQUAL(world.waits, 5);
    CHECK_EQUAL(world.now_ms, 0xFFFFFFF0u + 45);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world.waits, 5);
    world.waits = 0;
    world.during_wait = push_to_in;
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 1000), HYTHE_OK);
    CHECK_EQUAL(world.waits, 3);
    world_free(&world);
}

static void linux_is_rung_over_the_flows_that_ask_for_it(void)
{
    uint32_t asks;

    for (asks = 0; asks <= 1; asks++) {
        struct world world;
        struct hythe_buffer buffer;
        uint32_t count;
        world_make_connected(&world);
        linux_poll(&world.side, !asks);
        count = load(core_word(&world.side, 64));
        linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
        CHECK_EQUAL(world.rings, asks);
        CHECK_EQUAL(load(core_word(&world.side, 64)), count + asks);
        world_free(&world);
    }
}

/* What the core's word says during a wait. */
static uint32_t wanted_in_wait;

static void note_wanted(struct world *world)
{
    wanted_in_wait += load(core_word(&world->side, 68));
}

static void the_core_asks_to_be_rung_while_it_sleeps(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    wanted_in_wait = 0;
    world.waits = 0;
    world.during_wait = note_wanted;
    CHECK_EQUAL(load(core_word(&world.side, 68)), 0);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world.waits, 0);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 10), HYTHE_E_TIMEOUT);
    CHECK(world.waits > 0);
    CHECK_EQUAL(wanted_in_wait, world.waits);
    CHECK_EQUAL(load(core_word(&world.side, 68)), 0);
    /* It looks a hundred times before it says so. */
    world.link.endpoints[IN].spin_checks = 100;
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 10), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world_free(&world);
}

static void a_core_that_sleeps_by_itself_is_always_rung(void)
{
    struct world world;

    world_make(&world);
    world.config.sleeps_by_itself = 1;
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(load(core_word(&world.side, 68)), 1);
    world_free(&world);
}

void test_endpoint(void)
{
    RUN(a_filled_buffer_arrives_in_place_and_comes_back);
    RUN(parts_of_one_slot_come_back_one_by_one);
    RUN(a_leased_slot_is_filled_and_published);
    RUN(unused_slots_and_empty_payloads_are_told_apart);
    RUN(a_wrong_direction_is_our_own_bug);
    RUN(forwarding_gives_the_buffer_to_one_and_a_credit_to_the_other);
    RUN(forwarding_to_no_port_keeps_the_buffer);
    RUN(a_full_window_waits_and_then_gives_up);
    RUN(a_wait_is_bounded_and_ends_early_with_a_buffer);
    RUN(linux_is_rung_over_the_flows_that_ask_for_it);
    RUN(the_core_asks_to_be_rung_while_it_sleeps);
    RUN(a_core_that_sleeps_by_itself_is_always_rung);
}
