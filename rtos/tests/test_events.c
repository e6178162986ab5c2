/* Events, both ways: sets of bits of which none is lost and none counted twice. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hythe_posix.h"
#include "test.h"
#include "world.h"

/* IN and OUT are of this kind here; IN2 and OUT2 carry messages. */
static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"events in", HYTHE_TO_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
    {"events out", HYTHE_FROM_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
    {"in", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {"out", HYTHE_FROM_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
};

static void start(struct world *world)
{
    world->config.endpoints = ENDPOINTS;
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
}

static void make_with_ports(struct world *world, uint32_t ports)
{
    uint32_t port;

    world_make(world);
    start(world);
    for (port = 0; port < ports; port++) {
        world_attach(world, LINUX_FLOW(IN, port));
        world_attach(world, LINUX_FLOW(OUT, port));
    }
    world->rings = 0;
}

static void an_event_stays_pending_once_until_it_is_taken(void)
{
    struct world world;
    uint64_t highest = (uint64_t)1 << 63;

    make_with_ports(&world, 1);
    CHECK_EQUAL(load(core_word(&world.side, 128 + 64 * OUT + 44)), 2);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), highest | 5), HYTHE_OK);
    CHECK_EQUAL(world.rings, 1);
    /* Pending already: nothing to say. */
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), highest | 1), HYTHE_OK);
    CHECK_EQUAL(world.rings, 1);
    /* A new one beside one that is pending. */
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), 3), HYTHE_OK);
    CHECK_EQUAL(world.rings, 2);
    CHECK(linux_take_events(&world.side, OUT) == (highest | 7));
    CHECK_EQUAL(linux_take_events(&world.side, OUT), 0);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), 4), HYTHE_OK);
    CHECK_EQUAL(linux_take_events(&world.side, OUT), 4);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), 0), HYTHE_OK);
    CHECK_EQUAL(linux_take_events(&world.side, OUT), 0);
    world_free(&world);
}

static void raising_reaches_all_ports_and_waiting_hears_all(void)
{
    struct world world;
    uint64_t events = 0;
    uint32_t port;

    make_with_ports(&world, WORLD_PORTS);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), 0x100000001u), HYTHE_OK);
    CHECK_EQUAL(world.rings, 1);
    for (port = 0; port < WORLD_PORTS; port++) {
        CHECK(linux_take_events(&world.side, LINUX_FLOW(OUT, port)) == 0x100000001u);
        CHECK(linux_raise(&world.side, LINUX_FLOW(IN, port), (uint64_t)1 << 9 * port) != 0);
        CHECK(linux_raise(&world.side, LINUX_FLOW(IN, port), (uint64_t)1 << 9 * port) == 0);
    }
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN), &events, 0), HYTHE_OK);
    CHECK(events == 0x8040201008040201u);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN), &events, 25), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(events, 0);
    CHECK_EQUAL(world.waits, 3);
    world_free(&world);
}

static void a_new_session_begins_with_nothing_pending(void)
{
    struct world world;
    uint64_t events;

    make_with_ports(&world, 1);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), 1), HYTHE_OK);
    CHECK_EQUAL(linux_raise(&world.side, IN, 6), 6);
    world_attach(&world, IN);
    world_attach(&world, OUT);
    CHECK_EQUAL(linux_take_events(&world.side, OUT), 0);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN), &events, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(linux_raise(&world.side, IN, 6), 6);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN), &events, 0), HYTHE_OK);
    CHECK_EQUAL(events, 6);
    world_restart_core(&world);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN), &events, 0), HYTHE_E_DETACHED);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT), 1), HYTHE_E_DETACHED);
    world_free(&world);
}

static void kinds_and_directions_are_not_mixed_up(void)
{
    struct world world;
    struct hythe_buffer buffer;
    uint64_t events;

    make_with_ports(&world, 1);
    world_attach(&world, IN2);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, IN), 1), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_event_raise(world_endpoint(&world, OUT2), 1), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_event_raise(NULL, 1), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, OUT), &events, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN2), &events, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_event_wait(world_endpoint(&world, IN), NULL, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN), &buffer, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_lease(world_endpoint(&world, OUT), &buffer, 0), HYTHE_E_ARGUMENT);
    linux_push(&world.side, IN2, linux_slot(&world.side, 0, 1, 1));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN2), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&world, OUT), 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world_free(&world);
}

/* ---- Two threads: one raises, one takes, and says what it found announced ---- */

enum {
    EVENTS = 64,
    RAISES = 200000,
    /*
     * As often an event is raised while the first raise is being taken; then the raiser waits for
     * the taker, and a lost event would stop both.
     */
    BURST = 3
};

struct race {
    struct world world;
    int sockets[2];
    /* What an event announces, what its reader has found, and how often it was taken. */
    uint32_t announced[EVENTS];
    uint32_t found[EVENTS];
    uint32_t taken;
    uint32_t is_over;
};

static void look(struct race *race, uint64_t events)
{
    uint32_t i;

    for (i = 0; i < EVENTS; i++) {
        if ((events >> i & 1) != 0) {
            store(&race->found[i], __atomic_load_n(&race->announced[i], __ATOMIC_RELAXED));
            race->taken++;
        }
    }
}

/* 1 once the taker has found this; 0 after far longer than that may take. */
static int is_found(struct race *race, uint32_t event, uint32_t value)
{
    time_t end = time(NULL) + 20;
    uint32_t looks;

    for (looks = 1; load(&race->found[event]) != value; looks++) {
        if (looks % 1024 == 0) {
            sched_yield();
            if (time(NULL) > end) {
                return 0;
            }
        }
    }
    return 1;
}

/* Moves the next raise to another moment of the take. */
static void pause_for(uint32_t looks)
{
    static uint32_t nothing;

    while (looks-- > 0) {
        (void)load(&nothing);
    }
}

/* Announces and raises; returns how many bits were flipped, if that can be known. */
static uint32_t raise_all(struct race *race, uint32_t (*raise_one)(struct race *, uint32_t event))
{
    uint32_t flips = 0;
    uint32_t i;

    for (i = 1; i <= RAISES && test_sum.broken_checks == 0; i++) {
        uint32_t event = i / BURST * 5 % EVENTS;
        pause_for(i * 7 % 211);
        __atomic_store_n(&race->announced[event], i, __ATOMIC_RELAXED);
        flips += raise_one(race, event);
        if (i % BURST == BURST - 1) {
            CHECK(is_found(race, event, i));
        }
    }
    for (i = 0; i < EVENTS && test_sum.broken_checks == 0; i++) {
        CHECK(is_found(race, i, race->announced[i]));
    }
    return flips;
}

static void race_begin(struct race *race)
{
    uint32_t i;

    for (i = 0; i < EVENTS; i++) {
        race->announced[i] = race->found[i] = 0;
    }
    race->taken = race->is_over = 0;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, race->sockets), 0);
}

static uint32_t linux_raises(struct race *race, uint32_t event)
{
    uint32_t flipped = linux_raise(&race->world.side, IN, (uint64_t)1 << event) != 0;

    if (flipped) {
        (void)!send(race->sockets[1], "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return flipped;
}

static void *core_takes(void *argument)
{
    struct race *race = argument;
    uint64_t events;
    uint32_t looks;

    for (looks = 0; !load(&race->is_over); looks++) {
        /* Mostly looking, so that both threads run at once; sleeping now and then. */
        uint32_t timeout_ms = looks % 1024 == 0 ? 20 : 0;
        if (hythe_event_wait(world_endpoint(&race->world, IN), &events, timeout_ms) == HYTHE_OK) {
            look(race, events);
        }
    }
    return NULL;
}

static uint32_t core_raises(struct race *race, uint32_t event)
{
    struct hythe_endpoint *out = world_endpoint(&race->world, OUT);
    uint32_t before = load(core_flow(&race->world.side, OUT, event < 32 ? 20 : 24));

    CHECK_EQUAL(hythe_event_raise(out, (uint64_t)1 << event), HYTHE_OK);
    return before != load(core_flow(&race->world.side, OUT, event < 32 ? 20 : 24));
}

static void *linux_takes(void *argument)
{
    struct race *race = argument;

    while (!load(&race->is_over)) {
        look(race, linux_take_events(&race->world.side, OUT));
    }
    return NULL;
}

static void run_race(void *(*taker)(void *), uint32_t (*raise_one)(struct race *, uint32_t))
{
    static struct race race;
    struct hythe_posix posix;
    pthread_t thread;
    uint32_t flips;

    race_begin(&race);
    world_make(&race.world);
    CHECK_EQUAL(hythe_posix_start(&posix, race.sockets[0], &race.world.port), 0);
    /* One task: without a lock, no barrier but the library's own stands in the way of a race. */
    race.world.port.lock = NULL;
    race.world.port.unlock = NULL;
    start(&race.world);
    world_attach(&race.world, IN);
    world_attach(&race.world, OUT);
    CHECK_EQUAL(pthread_create(&thread, NULL, taker, &race), 0);
    flips = raise_all(&race, raise_one);
    store(&race.is_over, 1);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(race.taken, flips);
    CHECK(flips > 0 && flips <= RAISES);
    CHECK_EQUAL(pthread_mutex_destroy(&posix.mutex), 0);
    close(race.sockets[0]);
    close(race.sockets[1]);
    world_free(&race.world);
}

static void no_event_of_linux_is_lost_or_counted_twice(void)
{
    run_race(core_takes, linux_raises);
}

static void no_event_of_the_core_is_lost_or_counted_twice(void)
{
    run_race(linux_takes, core_raises);
}

void test_events(void)
{
    RUN(an_event_stays_pending_once_until_it_is_taken);
    RUN(raising_reaches_all_ports_and_waiting_hears_all);
    RUN(a_new_session_begins_with_nothing_pending);
    RUN(kinds_and_directions_are_not_mixed_up);
    RUN(no_event_of_linux_is_lost_or_counted_twice);
    RUN(no_event_of_the_core_is_lost_or_counted_twice);
}
