/*
 * A Linux that lies in the middle of every call: before any read of the library it may have changed
 * any word of its section. Six endpoints of all kinds, eight ports each. No call crashes, lasts or
 * gives a buffer outside of the region, nothing but the core section is written, what the program
 * holds is what the library counts, and an honest agent that comes then is served. Driven by a
 * printed seed (HYTHE_SEED repeats one).
 */
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "world.h"

enum {
    ASK = 2,
    KNOCK = 3,
    ANSWER = 4,
    BACK = 5,
    ENDPOINT_COUNT = 6,
    HELD_MAX = 24,
    STEPS = 12000,
    RUNS = 4,
    /* More than any call reads. */
    READS_MAX = 100000,
    REQUEST_LENGTH = 8
};

static const struct hythe_endpoint_config KINDS[ENDPOINT_COUNT] = {
    {"in", HYTHE_TO_CORE, 3840, 0, 0, HYTHE_KIND_MESSAGES},
    {"out", HYTHE_FROM_CORE, 3840, 0, 3, HYTHE_KIND_MESSAGES},
    {"ask", HYTHE_TO_CORE, 3840, 0, 0, HYTHE_KIND_REQUESTS},
    {"knock", HYTHE_TO_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
    {"answer", HYTHE_FROM_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
    {"back", HYTHE_FROM_CORE, 3840, 0, 0, HYTHE_KIND_MESSAGES},
};

static struct life {
    struct world world;
    uint64_t random;
    struct hythe_buffer held[HELD_MAX];
    uint32_t held_count;
    /* The Linux section as Linux wrote it: the library writes nothing there. */
    uint8_t *linux_section;
    uint32_t reads;
    uint32_t waits;
    uint32_t taken;
    uint32_t heard;
} life;

static uint32_t draw(uint32_t below)
{
    /* xorshift64*, as in test_random.c. */
    life.random ^= life.random >> 12;
    life.random ^= life.random << 25;
    life.random ^= life.random >> 27;
    return (uint32_t)((life.random * 2685821657736338717u) >> 33) % below;
}

static uint32_t draw_flow(void)
{
    uint32_t endpoint = draw(ENDPOINT_COUNT);

    return LINUX_FLOW(endpoint, draw(WORLD_PORTS));
}

/* Something that could be true, more often than not. */
static uint32_t lie(uint32_t found)
{
    switch (draw(6)) {
    case 0:
        return found + 1;
    case 1:
        return found - 1;
    case 2:
        return found ^ (uint32_t)1 << draw(32);
    case 3:
        return draw(WORLD_CAPACITY + 2);
    case 4:
        return 0xFFFFFFFFu;
    default:
        return draw(0x7FFFFFFFu);
    }
}

static void lie_somewhere(void)
{
    struct linux_side *side = &life.world.side;
    uint32_t flow = draw_flow();
    volatile uint32_t *word;

    switch (draw(8)) {
    case 0:
        word = linux_word(side, 4 * draw(64));
        break;
    case 1:
        word = linux_word(side, 4 * draw(side->section_bytes / 4));
        break;
    case 2:
        word = linux_entry(side, flow, draw(WORLD_CAPACITY));
        word += draw(8);
        break;
    default:
        word = linux_flow(side, flow, 4 * draw(9));
        break;
    }
    store(word, lie(load(word)));
}

/* Before each read of the library. */
static void linux_acts(struct world *world, const volatile void *at)
{
    (void)at;
    CHECK(++life.reads < READS_MAX);
    if (draw(400) == 0) {
        lie_somewhere();
        memcpy(life.linux_section, world->link_memory, world->side.section_bytes);
    }
}

/* ---- What Linux does between the calls of the core ---- */

static void linux_pushes(uint32_t flow)
{
    struct linux_side *side = &life.world.side;
    uint32_t length = flow % LINUX_ENDPOINTS_MAX == ASK ? REQUEST_LENGTH : draw(3000);
    struct descriptor pushed = linux_slot(side, 0, draw(WORLD_SLOTS), length);

    if (!linux_attach_done(side, flow)) {
        return;
    }
    if (draw(4) == 0) {
        uint32_t words[sizeof pushed / sizeof(uint32_t)];
        uint32_t word = draw(sizeof words / sizeof words[0]);
        memcpy(words, &pushed, sizeof words);
        words[word] = lie(words[word]);
        memcpy(&pushed, words, sizeof words);
    }
    linux_push(side, flow, pushed);
}

static void linux_acts_between(void)
{
    struct linux_side *side = &life.world.side;
    uint32_t flow = draw_flow();
    struct descriptor got;

    switch (draw(10)) {
    case 0:
        linux_attach(side, flow);
        break;
    case 1:
        if (draw(4) == 0) {
            linux_detach(side, flow);
        }
        break;
    case 2:
        (void)linux_raise(side, flow, (uint64_t)1 << draw(64));
        break;
    case 3:
        (void)linux_take_events(side, flow);
        break;
    case 4:
        /* Only what is in range: Linux' own side of these tests trusts the core. */
        (void)linux_take(side, flow, &got);
        break;
    case 5:
        if (draw(20) == 0) {
            linux_publish(side);
        }
        break;
    case 6:
        lie_somewhere();
        break;
    default:
        linux_pushes(flow);
        break;
    }
}

/* ---- What the core does ---- */

static struct hythe_endpoint *endpoint(uint32_t number)
{
    return world_endpoint(&life.world, number);
}

static void core_takes(uint32_t timeout_ms)
{
    static const uint32_t FROM[4] = {IN, OUT, ASK, BACK};
    struct world *world = &life.world;
    struct hythe_buffer *buffer = &life.held[life.held_count];
    uint32_t number = FROM[draw(4)];
    int result;

    if (life.held_count == HELD_MAX) {
        return;
    }
    result = KINDS[number].direction == HYTHE_TO_CORE
                 ? hythe_receive(endpoint(number), buffer, timeout_ms)
                 : hythe_lease(endpoint(number), buffer, timeout_ms);
    CHECK(result <= HYTHE_OK && result >= HYTHE_E_NO_SLOT);
    if (result != HYTHE_OK) {
        CHECK(buffer->endpoint == NULL);
        return;
    }
    life.held_count++;
    life.taken++;
    CHECK(buffer->slot >= world->region_memory);
    CHECK(buffer->data >= buffer->slot);
    CHECK(buffer->data + buffer->length <= buffer->slot + WORLD_SLOT_BYTES);
    CHECK(buffer->data + buffer->length <= world->region_memory + world->region_bytes);
    CHECK(buffer->port < WORLD_PORTS);
}

/* Writes all that it may, as a program does. */
static void fill(struct hythe_buffer *buffer, uint32_t length)
{
    memset(buffer->data, 0x5A, length);
}

static int give(struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    uint32_t length;

    switch (draw(4)) {
    case 0:
        return hythe_forward(buffer, endpoint(draw(2) == 0 ? OUT : BACK), timeout_ms);
    case 1:
        length = draw(buffer->length + 1);
        if (buffer->endpoint->direction == HYTHE_FROM_CORE) {
            fill(buffer, length);
        }
        return hythe_publish(buffer, length, timeout_ms);
    case 2:
        length = hythe_reply_capacity(buffer);
        CHECK(length <= WORLD_SLOT_BYTES);
        length = draw(length + 1);
        if (buffer->endpoint->kind == HYTHE_KIND_REQUESTS) {
            fill(buffer, length);
        }
        return hythe_reply(buffer, length);
    default:
        return hythe_release(buffer);
    }
}

static void core_gives(uint32_t timeout_ms)
{
    struct hythe_buffer *buffer;
    int result;

    if (life.held_count == 0) {
        return;
    }
    buffer = &life.held[draw(life.held_count)];
    result = give(buffer, timeout_ms);
    CHECK(result <= HYTHE_STALE && result >= HYTHE_E_LENGTH);
    if (buffer->endpoint == NULL) {
        *buffer = life.held[--life.held_count];
    } else {
        CHECK(result < 0);
    }
}

static void core_acts(uint32_t timeout_ms)
{
    uint64_t events;

    switch (draw(8)) {
    case 0:
        CHECK(hythe_event_raise(endpoint(ANSWER), (uint64_t)1 << draw(64)) <= HYTHE_OK);
        break;
    case 1:
        life.heard += hythe_event_wait(endpoint(KNOCK), &events, timeout_ms) == HYTHE_OK;
        break;
    case 2:
        CHECK(hythe_endpoint_ports(endpoint(draw(ENDPOINT_COUNT))) <= WORLD_PORTS);
        break;
    case 3:
        if (life.held_count > 0) {
            (void)hythe_buffer_is_stale(&life.held[draw(life.held_count)]);
        }
        break;
    case 4:
    case 5:
        core_takes(timeout_ms);
        break;
    default:
        core_gives(timeout_ms);
        break;
    }
}

/* One call of the library, Linux lying meanwhile. */
static void core_steps(void)
{
    struct world *world = &life.world;
    uint32_t timeout_ms = draw(16) == 0 ? draw(40) : 0;

    memcpy(life.linux_section, world->link_memory, world->side.section_bytes);
    life.reads = 0;
    life.waits = world->waits;
    world->before_read = linux_acts;
    core_acts(timeout_ms);
    world->before_read = NULL;
    CHECK(world->waits - life.waits <= timeout_ms);
    CHECK(memcmp(life.linux_section, world->link_memory, world->side.section_bytes) == 0);
}

static void counts_agree(void)
{
    uint32_t sum = 0;
    uint32_t number;

    for (number = 0; number < ENDPOINT_COUNT; number++) {
        sum += world_counters(&life.world, number).held;
    }
    CHECK_EQUAL(sum, life.held_count);
}

static void is_still_usable(void)
{
    struct linux_side *side = &life.world.side;
    struct hythe_buffer buffer;

    linux_publish(side);
    while (life.held_count > 0) {
        CHECK(hythe_release(&life.held[--life.held_count]) <= HYTHE_STALE);
    }
    CHECK_EQUAL(hythe_link_wait(&life.world.link, 100), HYTHE_OK);
    world_attach(&life.world, LINUX_FLOW(IN, 7));
    linux_push(side, LINUX_FLOW(IN, 7), linux_slot(side, 0, 1, 5));
    CHECK_EQUAL(hythe_receive(endpoint(IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
}

static void make(uint64_t seed)
{
    struct world *world = &life.world;
    uint32_t number;

    memset(&life, 0, sizeof life);
    life.random = seed * 0x9E3779B97F4A7C15u + 1;
    world_make(world);
    world->side.endpoints = ENDPOINT_COUNT;
    world->config.endpoints = KINDS;
    world->config.endpoint_count = ENDPOINT_COUNT;
    life.linux_section = malloc(world->side.section_bytes);
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    for (number = 0; number < ENDPOINT_COUNT * WORLD_PORTS; number++) {
        world_attach(world, LINUX_FLOW(number / WORLD_PORTS, number % WORLD_PORTS));
    }
}

/* A new agent whose ports all attach; what the core holds keeps it from being met at once. */
static void begin_anew(void)
{
    uint32_t number;

    linux_publish(&life.world.side);
    (void)hythe_link_service(&life.world.link);
    for (number = 0; number < ENDPOINT_COUNT * WORLD_PORTS; number++) {
        linux_attach(&life.world.side, LINUX_FLOW(number / WORLD_PORTS, number % WORLD_PORTS));
    }
    (void)hythe_link_service(&life.world.link);
}

static void live(uint64_t seed)
{
    int step;

    make(seed);
    for (step = 0; step < STEPS && test_sum.broken_checks == 0; step++) {
        linux_acts_between();
        core_steps();
        counts_agree();
        /* A header that was lied about keeps the link down: a new agent now and then. */
        if (step % 100 == 99) {
            begin_anew();
        }
    }
    is_still_usable();
    /* It was a life, and not a stand-still. */
    printf("    seed %llu: %u taken, %u heard\n", (unsigned long long)seed, life.taken, life.heard);
    CHECK(life.taken > 100 && life.heard > 10);
    if (test_sum.broken_checks != 0) {
        printf("HYTHE_SEED=%llu, step %d\n", (unsigned long long)seed, step);
    }
    free(life.linux_section);
    world_free(&life.world);
}

static void a_linux_that_lies_in_the_middle_of_every_call_does_no_harm(void)
{
    const char *text = getenv("HYTHE_SEED");
    uint64_t first = text != NULL ? strtoull(text, NULL, 0) : 20261123u;
    uint64_t seed;

    printf("lies: seed %llu\n", (unsigned long long)first);
    for (seed = first; seed < first + RUNS && test_sum.broken_checks == 0; seed++) {
        live(seed);
    }
}

void test_lies(void)
{
    RUN(a_linux_that_lies_in_the_middle_of_every_call_does_no_harm);
}
