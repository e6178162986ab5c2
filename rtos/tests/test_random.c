/*
 * Random life: both sides act in random order, Linux lies now and then, cores and attachments start again at any
 * moment. Driven by a printed seed (HYTHE_SEED repeats one). After every step the invariants below hold.
 */
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "world.h"

enum {
    HELD_MAX = 12,
    STEPS = 20000,
    RUNS = 8
};

struct life {
    struct world world;
    uint64_t random;
    struct hythe_buffer held[HELD_MAX];
    int held_count;
    /* The tag of the present attachment of each to-core endpoint goes into the payload's length. */
    uint32_t tag[WORLD_ENDPOINTS];
    /* Buffers that the present attachment of a to-core endpoint has out: never more than the window. */
    uint32_t out[WORLD_ENDPOINTS];
    int honest;
};

static uint32_t draw(struct life *life, uint32_t below)
{
    /* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016. */
    life->random ^= life->random >> 12;
    life->random ^= life->random << 25;
    life->random ^= life->random >> 27;
    return (uint32_t)((life->random * 2685821657736338717u) >> 33) % below;
}

static void attach(struct life *life, uint32_t endpoint)
{
    linux_attach(&life->world.side, endpoint);
    life->tag[endpoint] = (life->tag[endpoint] + 1) % 3800;
    life->out[endpoint] = 0;
}

static void linux_pushes(struct life *life)
{
    struct linux_side *side = &life->world.side;
    uint32_t endpoint = draw(life, WORLD_ENDPOINTS);
    struct descriptor descriptor = linux_slot(side, 0, draw(life, WORLD_SLOTS), life->tag[endpoint]);
    struct descriptor got;

    if (!linux_attach_done(side, endpoint)) {
        return;
    }
    while (draw(life, 4) != 0 && linux_take(side, endpoint, &got)) {
        life->out[endpoint]--;
    }
    /* The window of a from-core endpoint is not the core's to check: what is forwarded comes over it, too. */
    if (side->tail[endpoint] - load(core_flow(side, endpoint, 12)) >= WORLD_CAPACITY ||
        ((endpoint == IN || endpoint == IN2) && life->out[endpoint] >= WORLD_CAPACITY)) {
        return;
    }
    life->out[endpoint]++;
    if (!life->honest && draw(life, 10) == 0) {
        uint32_t *words[4] = {&descriptor.place, &descriptor.generation, &descriptor.offset, &descriptor.length};
        *words[draw(life, 4)] = draw(life, 2) == 0 ? draw(life, 5000) : 0xFFFFFFFFu - draw(life, 300);
    }
    linux_push(side, endpoint, descriptor);
}

static void linux_restarts_something(struct life *life)
{
    uint32_t i;

    switch (draw(life, 4)) {
    case 0:
        linux_publish(&life->world.side);
        break;
    case 1:
        linux_detach(&life->world.side, draw(life, WORLD_ENDPOINTS));
        break;
    default:
        for (i = 0; i < WORLD_ENDPOINTS; i++) {
            attach(life, i);
        }
        break;
    }
}

static void linux_lies(struct life *life)
{
    struct linux_side *side = &life->world.side;
    uint32_t value = draw(life, 3) == 0 ? draw(life, 20) : draw(life, 0x7FFFFFFF);

    if (draw(life, 2) == 0) {
        store(linux_flow(side, draw(life, WORLD_ENDPOINTS), 4 * draw(life, 4)), value);
    } else {
        store(linux_word(side, 4 * draw(life, 56)), value);
    }
}

static void core_restarts(struct life *life)
{
    life->held_count = 0;
    world_restart_core(&life->world);
}

static void core_takes(struct life *life)
{
    struct world *world = &life->world;
    uint32_t endpoint = draw(life, WORLD_ENDPOINTS);
    struct hythe_buffer *buffer = &life->held[life->held_count];
    int result;

    if (life->held_count == HELD_MAX) {
        return;
    }
    result = endpoint == IN || endpoint == IN2 ? hythe_receive(world_endpoint(world, endpoint), buffer, draw(life, 2))
                                               : hythe_lease(world_endpoint(world, endpoint), buffer, draw(life, 2));
    CHECK(result <= 0);
    if (result != HYTHE_OK) {
        return;
    }
    life->held_count++;
    CHECK(buffer->slot >= world->region_memory);
    CHECK(buffer->data + buffer->length <= world->region_memory + world->region_bytes);
    CHECK(buffer->data >= buffer->slot && buffer->data + buffer->length <= buffer->slot + WORLD_SLOT_BYTES);
    if (life->honest) {
        CHECK_EQUAL(buffer->length, life->tag[endpoint]);
    }
}

static void core_gives(struct life *life)
{
    struct world *world = &life->world;
    uint32_t at;
    struct hythe_buffer *buffer;
    int result;

    if (life->held_count == 0) {
        return;
    }
    at = draw(life, (uint32_t)life->held_count);
    buffer = &life->held[at];
    switch (draw(life, 3)) {
    case 0:
        result = hythe_forward(buffer, world_endpoint(world, draw(life, 2) == 0 ? OUT : OUT2), 1);
        break;
    case 1:
        result = hythe_publish(buffer, draw(life, buffer->length + 1), 1);
        break;
    default:
        result = hythe_release(buffer);
        break;
    }
    CHECK(result <= HYTHE_STALE && result >= HYTHE_E_LENGTH);
    if (buffer->endpoint == NULL) {
        *buffer = life->held[--life->held_count];
    } else {
        CHECK(result < 0);
    }
}

static uint32_t held_by_library(struct life *life)
{
    uint32_t sum = 0;
    uint32_t i;

    for (i = 0; i < WORLD_ENDPOINTS; i++) {
        sum += world_counters(&life->world, i).held;
    }
    return sum;
}

static uint32_t violations(struct life *life)
{
    uint32_t sum = 0;
    uint32_t i;

    for (i = 0; i < WORLD_ENDPOINTS; i++) {
        sum += world_counters(&life->world, i).violations;
    }
    return sum;
}

static void step(struct life *life)
{
    uint32_t what = draw(life, 100);

    if (what < 40) {
        linux_pushes(life);
    } else if (what < 65) {
        core_takes(life);
    } else if (what < 92) {
        core_gives(life);
    } else if (what < 95) {
        linux_restarts_something(life);
    } else if (what < 96) {
        core_restarts(life);
    } else if (!life->honest && what < 98) {
        linux_lies(life);
    } else {
        (void)hythe_link_service(&life->world.link);
    }
    CHECK_EQUAL(held_by_library(life), life->held_count);
    if (life->honest) {
        CHECK_EQUAL(violations(life), 0);
    }
}

/* Whatever happened: an honest agent that comes now is served. */
static void is_still_usable(struct life *life)
{
    struct world *world = &life->world;
    struct hythe_buffer buffer;

    while (life->held_count > 0) {
        struct hythe_buffer *held = &life->held[--life->held_count];
        /* A full queue keeps unused stock; Linux's next session frees it. */
        linux_publish(&world->side);
        CHECK(hythe_release(held) != HYTHE_E_FULL);
    }
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_wait(&world->link, 100), HYTHE_OK);
    world_attach(world, IN);
    linux_push(&world->side, IN, linux_slot(&world->side, 0, 1, 5));
    CHECK_EQUAL(hythe_receive(world_endpoint(world, IN), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
}

static void live(uint64_t seed, int honest)
{
    struct life *life = calloc(1, sizeof *life);
    int i;

    life->random = seed * 0x9E3779B97F4A7C15u + 1;
    life->honest = honest;
    world_make_connected(&life->world);
    for (i = 0; i < STEPS && test_sum.broken_checks == 0; i++) {
        step(life);
    }
    is_still_usable(life);
    if (test_sum.broken_checks != 0) {
        printf("seed %llu, %s Linux, step %d\n", (unsigned long long)seed, honest ? "honest" : "lying", i);
    }
    world_free(&life->world);
    free(life);
}

static uint64_t first_seed(void)
{
    const char *text = getenv("HYTHE_SEED");

    return text != NULL ? strtoull(text, NULL, 0) : 20240601u;
}

static void an_honest_linux_never_sees_an_old_message(void)
{
    uint64_t seed;

    for (seed = first_seed(); seed < first_seed() + RUNS; seed++) {
        live(seed, 1);
    }
}

static void a_lying_linux_does_no_harm(void)
{
    uint64_t seed;

    for (seed = first_seed(); seed < first_seed() + RUNS; seed++) {
        live(seed, 0);
    }
}

void test_random(void)
{
    printf("random: seed %llu\n", (unsigned long long)first_seed());
    RUN(an_honest_linux_never_sees_an_old_message);
    RUN(a_lying_linux_does_no_harm);
}
