/*
 * A Linux that lies: every word it may write, written wrong. Nothing may crash, block, or leave the
 * region.
 */
#include "test.h"
#include "world.h"

static void pushed_and_dropped(struct world *world, struct descriptor bad)
{
    struct hythe_buffer buffer;
    uint32_t before = world_counters(world, IN).violations;

    linux_push(&world->side, IN, bad);
    CHECK_EQUAL(hythe_receive(world_endpoint(world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(world, IN).violations, before + 1);
    /* As Linux is shown it, in the endpoint's record. */
    CHECK_EQUAL(load(core_word(&world->side, 2 * 64 + 48)), before + 1);
    CHECK_EQUAL(world_counters(world, IN).held, 0);
}

static void each_bad_descriptor_is_dropped_and_counted(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor good;
    struct descriptor bad;
    uint32_t place_region_1 = 1u << 24;

    world_make_connected(&world);
    good = linux_slot(&world.side, 0, 2, 16);

    bad = good, bad.place = place_region_1;
    pushed_and_dropped(&world, bad);
    bad = good, bad.place = (2u << 24) + WORLD_SLOTS;
    pushed_and_dropped(&world, bad);
    bad = good, bad.place = 0xFFFFFFFFu;
    pushed_and_dropped(&world, bad);
    bad = good, bad.generation = 0;
    pushed_and_dropped(&world, bad);
    bad = good, bad.generation = 0x01000000;
    pushed_and_dropped(&world, bad);
    bad = good, bad.offset = WORLD_SLOT_BYTES + 1;
    pushed_and_dropped(&world, bad);
    bad = good, bad.offset = 0xFFFFFFFFu;
    pushed_and_dropped(&world, bad);
    bad = good, bad.length = WORLD_SLOT_BYTES - 255;
    pushed_and_dropped(&world, bad);
    bad = good, bad.length = LINUX_CREDIT;
    pushed_and_dropped(&world, bad);
    bad = good, bad.length = LINUX_UNUSED;
    pushed_and_dropped(&world, bad);
    bad = good, bad.offset = 0xFFFFFF00u, bad.length = 0x200;
    pushed_and_dropped(&world, bad);

    bad = good, bad.references = 0;
    pushed_and_dropped(&world, bad);

    /* The flow stays usable, and one call skips all bad ones before a good one. */
    linux_push(&world.side, IN, bad);
    linux_push(&world.side, IN, bad);
    linux_push(&world.side, IN, good);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world_free(&world);
}

static void a_tail_out_of_range_stops_the_endpoint_until_linux_attaches_anew(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    store(linux_flow(&world.side, IN, 8), world.side.tail[IN] + WORLD_CAPACITY + 1);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 20), HYTHE_E_QUARANTINED);
    CHECK_EQUAL(world_counters(&world, IN).violations, 1);
    store(linux_flow(&world.side, IN, 8), world.side.tail[IN]);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 20), HYTHE_E_QUARANTINED);
    /* Its neighbour does not care. */
    linux_push(&world.side, IN2, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN2), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world_attach(&world, IN);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    world_free(&world);
}

static void a_head_out_of_range_stops_the_endpoint(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 2, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    store(linux_flow(&world.side, IN, 12), world.side.head[IN] + 1000);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_E_QUARANTINED);
    CHECK(buffer.endpoint == NULL);
    CHECK_EQUAL(world_counters(&world, IN).dropped, 1);
    CHECK_EQUAL(world_counters(&world, IN).held, 0);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_QUARANTINED);
    world_free(&world);
}

static void more_buffers_than_the_window_cannot_block_a_return(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t i;

    world_make_connected(&world);
    for (i = 0; i < WORLD_CAPACITY; i++) {
        linux_push(&world.side, IN, linux_slot(&world.side, 0, i, 1));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 0, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_E_QUARANTINED);
    CHECK(buffer.endpoint == NULL);
    CHECK_EQUAL(world.waits, 0);
    world_free(&world);
}

static void forwarding_from_a_broken_endpoint_gives_nothing_away(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor got;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    world.link.endpoints[IN].flows[0].settled = 1;
    store(linux_flow(&world.side, IN, 12), world.side.head[IN] + 5);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_STALE);
    CHECK(!linux_take(&world.side, OUT, &got));
    CHECK_EQUAL(world_counters(&world, IN).dropped, 1);
    world_free(&world);
}

static void forwarding_to_a_broken_endpoint_keeps_the_buffer(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    world.link.endpoints[OUT].flows[0].settled = 1;
    store(linux_flow(&world.side, OUT, 12), world.side.head[OUT] - 1);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_E_QUARANTINED);
    CHECK(buffer.endpoint != NULL);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world_free(&world);
}

static void geometry_changed_behind_our_back_changes_nothing(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t offset;

    world_make_connected(&world);
    for (offset = 0; offset < 40; offset += 4) {
        store(linux_word(&world.side, offset), 0xFFFFFFFFu);
    }
    for (offset = 0; offset < 64; offset += 4) {
        store(linux_word(&world.side, 128 + offset), 0xFFFFFFFFu);
    }
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 31, 3840));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK(buffer.data == world.region_memory + 31 * WORLD_SLOT_BYTES + 256);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 32, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    world_free(&world);
}

void test_hostile(void)
{
    RUN(each_bad_descriptor_is_dropped_and_counted);
    RUN(a_tail_out_of_range_stops_the_endpoint_until_linux_attaches_anew);
    RUN(a_head_out_of_range_stops_the_endpoint);
    RUN(more_buffers_than_the_window_cannot_block_a_return);
    RUN(forwarding_from_a_broken_endpoint_gives_nothing_away);
    RUN(forwarding_to_a_broken_endpoint_keeps_the_buffer);
    RUN(geometry_changed_behind_our_back_changes_nothing);
}
