/*
 * One side starts again while the other goes on: nothing of the old session is delivered, nothing
 * blocks.
 */
#include "test.h"
#include "world.h"

static void a_restarted_core_raises_its_session_and_delivers_nothing_old(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint32_t session;

    world_make_connected(&world);
    session = load(core_word(&world.side, 8));
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 2, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);

    world_restart_core(&world);
    CHECK_EQUAL(load(core_word(&world.side, 8)), session + 1);
    CHECK_EQUAL(linux_state(&world.side), 1);
    CHECK_EQUAL(load(core_flow(&world.side, IN, 0)), 0);
    /*
     * Linux has not noticed yet: the attachment of the old life is not answered, and its buffers
     * are not taken.
     */
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 3, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 30), HYTHE_E_DETACHED);

    world_attach(&world, IN);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 4, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(buffer.words[0], linux_slot(&world.side, 0, 4, 1).place);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&world, IN).violations, 0);
    world_free(&world);
}

static void a_restarted_core_goes_on_counting(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor got;
    uint32_t tail;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    tail = load(core_flow(&world.side, IN, 8));
    CHECK(tail != 0);
    world_restart_core(&world);
    CHECK_EQUAL(load(core_flow(&world.side, IN, 8)), tail);
    world_attach(&world, IN);
    CHECK_EQUAL(world.side.head[IN], tail);
    CHECK(!linux_take(&world.side, IN, &got));
    world_free(&world);
}

static void a_new_attachment_waits_until_the_program_holds_nothing(void)
{
    struct world world;
    struct hythe_buffer first;
    struct hythe_buffer second;
    struct hythe_buffer none;
    struct descriptor got;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 2, 1));
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 3, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &first, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &second, 0), HYTHE_OK);
    CHECK(!hythe_buffer_is_stale(&first));

    linux_attach(&world.side, IN);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK(!linux_attach_done(&world.side, IN));
    CHECK(hythe_buffer_is_stale(&first));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &none, 30), HYTHE_E_DETACHED);

    CHECK_EQUAL(hythe_release(&first), HYTHE_STALE);
    CHECK(!linux_attach_done(&world.side, IN));
    world.rings = 0;
    CHECK_EQUAL(hythe_forward(&second, world_endpoint(&world, OUT), 0), HYTHE_STALE);
    CHECK_EQUAL(world.rings, 1);
    CHECK(linux_attach_done(&world.side, IN));
    CHECK(!linux_take(&world.side, IN, &got));
    CHECK(!linux_take(&world.side, OUT, &got));
    CHECK_EQUAL(world_counters(&world, IN).dropped, 2);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &none, 0), HYTHE_E_TIMEOUT);
    world_free(&world);
}

/* Linux attaches anew while the core is between the tail it saw and the descriptor behind it. */
static void attach_before_the_entry_is_read(struct world *world, const volatile void *at)
{
    if (at == (const volatile void *)linux_entry(&world->side, IN, world->side.tail[IN] - 1)) {
        world->before_read = NULL;
        linux_attach(&world->side, IN);
    }
}

static void a_session_that_changes_between_two_reads_delivers_nothing(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    world.before_read = attach_before_the_entry_is_read;
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_DETACHED);
    CHECK(world.before_read == NULL);
    CHECK_EQUAL(world_counters(&world, IN).held, 0);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    CHECK(linux_attach_done(&world.side, IN));
    world_free(&world);
}

/* A wiped section in the same place: the tail that looks broken belongs to nobody any more. */
static void wipe_before_the_tail_is_read(struct world *world, const volatile void *at)
{
    if (at == (const volatile void *)linux_flow(&world->side, IN, 8)) {
        world->before_read = NULL;
        store(linux_flow(&world->side, IN, 8), 0);
        linux_publish(&world->side);
    }
}

static void a_tail_of_another_agent_is_no_violation(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world.before_read = wipe_before_the_tail_is_read;
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_DETACHED);
    CHECK_EQUAL(world_counters(&world, IN).violations, 0);
    world_free(&world);
}

static void a_leased_buffer_of_an_old_session_is_not_published(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor got;

    world_make_connected(&world);
    linux_push(&world.side, OUT, linux_slot(&world.side, 0, 1, 64));
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_OK);
    linux_attach(&world.side, OUT);
    CHECK_EQUAL(hythe_publish(&buffer, 10, 100), HYTHE_STALE);
    CHECK_EQUAL(world.waits, 0);
    CHECK(linux_attach_done(&world.side, OUT));
    CHECK(!linux_take(&world.side, OUT, &got));
    CHECK_EQUAL(world_counters(&world, OUT).published, 0);
    world_free(&world);
}

static void a_new_attachment_starts_behind_what_is_queued_both_ways(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor got;

    world_make_connected(&world);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 2, 1));
    world_attach(&world, IN);
    CHECK(!linux_take(&world.side, IN, &got));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_TIMEOUT);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 3, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    CHECK(linux_take(&world.side, IN, &got));
    CHECK_EQUAL(got.place, linux_slot(&world.side, 0, 3, 1).place);
    world_free(&world);
}

static void a_new_agent_is_answered_once_every_endpoint_is_idle(void)
{
    struct world world;
    struct hythe_buffer in;
    struct hythe_buffer leased;
    uint32_t session;

    world_make_connected(&world);
    session = load(core_word(&world.side, 8));
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, 1));
    linux_push(&world.side, OUT2, linux_slot(&world.side, 0, 2, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &in, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT2), &leased, 0), HYTHE_OK);

    /* Another geometry, too: flows and entries move. */
    world.side.endpoints = 6;
    world.side.capacity = 4;
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_E_DOWN);
    CHECK_EQUAL(linux_state(&world.side), 0);
    CHECK(hythe_buffer_is_stale(&in));
    CHECK_EQUAL(hythe_release(&in), HYTHE_STALE);
    CHECK_EQUAL(linux_state(&world.side), 0);
    CHECK_EQUAL(hythe_publish(&leased, 1, 1000), HYTHE_STALE);
    CHECK_EQUAL(linux_state(&world.side), 1);
    CHECK_EQUAL(load(core_word(&world.side, 8)), session + 1);
    world_attach(&world, IN);
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 5, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &in, 0), HYTHE_OK);
    world_free(&world);
}

static void an_agent_that_leaves_takes_the_link_down(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    store(linux_word(&world.side, 40), 0);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 10), HYTHE_E_DOWN);
    CHECK_EQUAL(load(core_word(&world.side, 12)), 0);
    CHECK_EQUAL(load(core_word(&world.side, 20)), 0);
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    world_free(&world);
}

static void a_core_that_starts_without_an_agent_ends_its_earlier_life(void)
{
    struct world world;

    world_make_connected(&world);
    store(linux_word(&world.side, 40), 0);
    world_restart_core(&world);
    CHECK_EQUAL(load(core_word(&world.side, 12)), 0);
    CHECK_EQUAL(load(core_word(&world.side, 20)), 0);
    CHECK_EQUAL(load(core_word(&world.side, 8)), 2);
    world_free(&world);
}

static void sessions_and_counters_pass_their_wrap_around(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor got;
    uint32_t i;

    world_make(&world);
    linux_publish(&world.side);
    /* An old life of the core left these: its session and its counters are about to wrap. */
    store(core_word(&world.side, 8), 0xFFFFFFFFu);
    for (i = 0; i < WORLD_ENDPOINTS; i++) {
        store(core_flow(&world.side, i, 8), 0xFFFFFFF8u);
        store(linux_flow(&world.side, i, 8), 0xFFFFFFFAu);
    }
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    CHECK_EQUAL(linux_state(&world.side), 1);
    CHECK_EQUAL(load(core_word(&world.side, 8)), 1);
    world_attach(&world, IN);
    world_attach(&world, OUT);
    for (i = 0; i < 40; i++) {
        linux_push(&world.side, IN, linux_slot(&world.side, 0, i % WORLD_SLOTS, i));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(buffer.length, i);
        CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
        CHECK(linux_take(&world.side, OUT, &got));
        CHECK_EQUAL(got.length, i);
        CHECK(linux_take(&world.side, IN, &got));
        CHECK_EQUAL(got.length, LINUX_CREDIT);
    }
    CHECK_EQUAL(load(core_flow(&world.side, IN, 8)), 32);
    CHECK_EQUAL(world_counters(&world, IN).violations, 0);
    CHECK_EQUAL(world_counters(&world, OUT).violations, 0);
    world_free(&world);
}

static void linux_words_wiped_by_a_new_agent_do_not_look_like_a_lie(void)
{
    struct world world;
    struct hythe_buffer buffer;
    struct descriptor got;
    uint32_t i;

    world_make_connected(&world);
    for (i = 0; i < 20; i++) {
        linux_push(&world.side, IN, linux_slot(&world.side, 0, 1, i));
        CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
        CHECK(linux_take(&world.side, OUT, &got));
        CHECK(linux_take(&world.side, IN, &got));
    }
    for (i = 192; i < 16384; i += 4) {
        store(linux_word(&world.side, i), 0);
    }
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    linux_attach(&world.side, IN);
    linux_attach(&world.side, OUT);
    CHECK_EQUAL(hythe_link_service(&world.link), HYTHE_OK);
    CHECK(linux_attach_done(&world.side, IN));
    /* OUT is echoed, but Linux has not read the echo yet: its head is still 0. */
    linux_push(&world.side, IN, linux_slot(&world.side, 0, 3, 33));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_OK);
    CHECK(linux_attach_done(&world.side, OUT));
    CHECK(linux_take(&world.side, OUT, &got));
    CHECK_EQUAL(got.length, 33);
    world_free(&world);
}

void test_sessions(void)
{
    RUN(a_restarted_core_raises_its_session_and_delivers_nothing_old);
    RUN(a_restarted_core_goes_on_counting);
    RUN(a_new_attachment_waits_until_the_program_holds_nothing);
    RUN(a_session_that_changes_between_two_reads_delivers_nothing);
    RUN(a_tail_of_another_agent_is_no_violation);
    RUN(a_leased_buffer_of_an_old_session_is_not_published);
    RUN(a_new_attachment_starts_behind_what_is_queued_both_ways);
    RUN(a_new_agent_is_answered_once_every_endpoint_is_idle);
    RUN(an_agent_that_leaves_takes_the_link_down);
    RUN(a_core_that_starts_without_an_agent_ends_its_earlier_life);
    RUN(sessions_and_counters_pass_their_wrap_around);
    RUN(linux_words_wiped_by_a_new_agent_do_not_look_like_a_lie);
}
