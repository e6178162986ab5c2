/*
 * Random life: both sides act in random order, Linux lies now and then, cores and attachments start
 * again at any moment. Driven by a printed seed (HYTHE_SEED repeats one). After every step the
 * invariants below hold.
 */
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "world.h"

enum {
    HELD_MAX = 12,
    STEPS = 20000,
    RUNS = 8,
    /* Ports of each endpoint that take part. */
    PORTS = 4
};

enum manner {
    /* Anything that Linux may write, and agents and cores that start again. */
    LYING,
    /* Agents, cores and attachments start again at any moment; nothing is taken back. */
    HONEST,
    /* Ports come and go as the page says, and take back what is left in their queues. */
    CALM
};

struct life {
    struct world world;
    uint64_t random;
    struct hythe_buffer held[HELD_MAX];
    int held_count;
    /* The tag of the present attachment of each flow goes into the payload's length. */
    uint32_t tag[LINUX_FLOWS_MAX];
    /* Buffers that the present attachment of a flow has out: never more than the page allows. */
    uint32_t out[LINUX_FLOWS_MAX];
    /* References that the core has of each slot: raised by a push, lowered by a take. */
    uint32_t given[WORLD_SLOTS];
    enum manner manner;
};

static uint32_t draw(struct life *life, uint32_t below)
{
    /*
     * xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators,
     * scrambled", 2016.
     */
    life->random ^= life->random >> 12;
    life->random ^= life->random << 25;
    life->random ^= life->random >> 27;
    return (uint32_t)((life->random * 2685821657736338717u) >> 33) % below;
}

static uint32_t draw_flow(struct life *life)
{
    uint32_t endpoint = draw(life, WORLD_ENDPOINTS);

    return LINUX_FLOW(endpoint, draw(life, PORTS));
}

static int is_to_core(uint32_t flow)
{
    return flow % LINUX_ENDPOINTS_MAX == IN || flow % LINUX_ENDPOINTS_MAX == IN2;
}

static uint32_t *given(struct life *life, uint32_t place)
{
    return &life->given[(place & 0xFFFFFFu) % WORLD_SLOTS];
}

static void attach(struct life *life, uint32_t flow)
{
    linux_attach(&life->world.side, flow);
    life->tag[flow] = (life->tag[flow] + 1) % 3800;
    life->out[flow] = 0;
}

/* 1 if there was an entry. */
static int linux_takes(struct life *life, uint32_t flow)
{
    struct descriptor got;

    if (!linux_take(&life->world.side, flow, &got)) {
        return 0;
    }
    *given(life, got.place) -= got.references;
    life->out[flow] -= is_to_core(flow) || got.length == LINUX_UNUSED;
    if (life->manner == CALM) {
        CHECK_EQUAL(got.references == 0, got.length == LINUX_CREDIT);
    }
    return 1;
}

static void spoil(struct life *life, struct descriptor *descriptor)
{
    uint32_t *words[5] = {&descriptor->place, &descriptor->generation, &descriptor->offset,
                          &descriptor->length, &descriptor->references};

    *words[draw(life, 5)] = draw(life, 2) == 0 ? draw(life, 5000) : 0xFFFFFFFFu - draw(life, 300);
}

static void linux_pushes(struct life *life)
{
    struct linux_side *side = &life->world.side;
    uint32_t flow = draw_flow(life);
    uint32_t most = is_to_core(flow) ? WORLD_CAPACITY : WORLD_CAPACITY - WORLD_WINDOW;
    struct descriptor descriptor = linux_slot(side, 0, draw(life, WORLD_SLOTS), life->tag[flow]);

    if (!linux_attach_done(side, flow)) {
        return;
    }
    while (draw(life, 4) != 0 && linux_takes(life, flow)) {
    }
    if (side->tail[flow] - load(core_flow(side, flow, 12)) >= WORLD_CAPACITY ||
        life->out[flow] >= most) {
        return;
    }
    life->out[flow]++;
    descriptor.references = 1 + draw(life, WORLD_PORTS);
    if (life->manner == LYING && draw(life, 10) == 0) {
        spoil(life, &descriptor);
    }
    *given(life, descriptor.place) += descriptor.references;
    linux_push(side, flow, descriptor);
}

static void linux_restarts_something(struct life *life)
{
    uint32_t endpoint;

    switch (draw(life, 4)) {
    case 0:
        linux_publish(&life->world.side);
        break;
    case 1:
        linux_detach(&life->world.side, draw_flow(life));
        break;
    case 2:
        attach(life, draw_flow(life));
        break;
    default:
        for (endpoint = 0; endpoint < WORLD_ENDPOINTS; endpoint++) {
            attach(life, LINUX_FLOW(endpoint, draw(life, PORTS)));
        }
        break;
    }
}

/* Nothing that the core has not taken, and nothing that it gave, is lost with the session. */
static void end_session(struct life *life, uint32_t flow)
{
    struct linux_side *side = &life->world.side;
    uint32_t counter;

    linux_detach(side, flow);
    for (counter = load(core_flow(side, flow, 12)); counter != side->tail[flow]; counter++) {
        const volatile uint32_t *entry = linux_entry(side, flow, counter);
        *given(life, entry[0]) -= entry[5];
    }
    while (linux_takes(life, flow)) {
    }
}

static void port_comes_or_goes(struct life *life)
{
    struct linux_side *side = &life->world.side;
    uint32_t flow = draw_flow(life);

    if (linux_attach_done(side, flow)) {
        end_session(life, flow);
    } else if (side->attached[flow] == 0 && load(core_flow(side, flow, 0)) == 0) {
        attach(life, flow);
    }
}

static void linux_lies(struct life *life)
{
    struct linux_side *side = &life->world.side;
    uint32_t value = draw(life, 3) == 0 ? draw(life, 20) : draw(life, 0x7FFFFFFF);

    if (draw(life, 2) == 0) {
        store(linux_flow(side, draw_flow(life), 4 * draw(life, 5)), value);
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
    result = endpoint == IN || endpoint == IN2
                 ? hythe_receive(world_endpoint(world, endpoint), buffer, draw(life, 2))
                 : hythe_lease(world_endpoint(world, endpoint), buffer, draw(life, 2));
    CHECK(result <= 0);
    if (result != HYTHE_OK) {
        return;
    }
    life->held_count++;
    CHECK(buffer->slot >= world->region_memory);
    CHECK(buffer->data + buffer->length <= world->region_memory + world->region_bytes);
    CHECK(buffer->data >= buffer->slot &&
          buffer->data + buffer->length <= buffer->slot + WORLD_SLOT_BYTES);
    if (life->manner != LYING) {
        CHECK_EQUAL(buffer->length, life->tag[LINUX_FLOW(endpoint, buffer->port)]);
    }
}

/* What the core drops is nobody's until Linux cleans up after it. */
static void account(struct life *life, const struct hythe_buffer *before, int result,
                    int is_published)
{
    uint32_t endpoint = before->endpoint == world_endpoint(&life->world, OUT) ? OUT : OUT2;

    if (result == HYTHE_STALE || result == HYTHE_E_QUARANTINED) {
        *given(life, before->words[0]) -= before->words[5];
    } else if (result == HYTHE_OK && is_published) {
        life->out[LINUX_FLOW(endpoint, before->port)]--;
    }
}

static void core_gives(struct life *life)
{
    struct world *world = &life->world;
    struct hythe_buffer before;
    struct hythe_buffer *buffer;
    int result;
    uint32_t how = draw(life, 3);

    if (life->held_count == 0) {
        return;
    }
    buffer = &life->held[draw(life, (uint32_t)life->held_count)];
    before = *buffer;
    switch (how) {
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
        account(life, &before, result, how == 1);
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

/* References in the two queues of a flow that is attached. */
static void add_queued(struct life *life, uint32_t flow, uint32_t sum[WORLD_SLOTS])
{
    struct linux_side *side = &life->world.side;
    uint32_t counter;

    for (counter = load(core_flow(side, flow, 12)); counter != side->tail[flow]; counter++) {
        sum[linux_entry(side, flow, counter)[0] & 0xFFFFFFu] += linux_entry(side, flow, counter)[5];
    }
    for (counter = side->head[flow]; counter != load(core_flow(side, flow, 8)); counter++) {
        sum[core_entry(side, flow, counter)[0] & 0xFFFFFFu] += core_entry(side, flow, counter)[5];
    }
}

/* References are divided, never made; and none is lost while ports come and go as they should. */
static void references_add_up(struct life *life)
{
    uint32_t sum[WORLD_SLOTS] = {0};
    uint32_t endpoint;
    uint32_t i;

    for (i = 0; i < (uint32_t)life->held_count; i++) {
        sum[life->held[i].words[0] & 0xFFFFFFu] += life->held[i].words[5];
    }
    for (endpoint = 0; endpoint < WORLD_ENDPOINTS; endpoint++) {
        for (i = 0; i < PORTS; i++) {
            if (linux_attach_done(&life->world.side, LINUX_FLOW(endpoint, i))) {
                add_queued(life, LINUX_FLOW(endpoint, i), sum);
            }
        }
    }
    for (i = 0; i < WORLD_SLOTS; i++) {
        CHECK(life->manner == CALM ? sum[i] == life->given[i] : sum[i] <= life->given[i]);
    }
}

static void change_something(struct life *life, uint32_t what)
{
    if (life->manner == CALM) {
        port_comes_or_goes(life);
    } else if (what < 95) {
        linux_restarts_something(life);
    } else {
        core_restarts(life);
    }
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
    } else if (what < 96) {
        change_something(life, what);
    } else if (life->manner == LYING && what < 98) {
        linux_lies(life);
    } else {
        (void)hythe_link_service(&life->world.link);
    }
    CHECK_EQUAL(held_by_library(life), life->held_count);
    if (life->manner != LYING) {
        CHECK_EQUAL(violations(life), 0);
        references_add_up(life);
    }
}

/* Whatever happened: an honest agent that comes now is served. */
static void is_still_usable(struct life *life)
{
    struct world *world = &life->world;
    struct hythe_buffer buffer;

    while (life->held_count > 0) {
        struct hythe_buffer *held = &life->held[--life->held_count];
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

static void live(uint64_t seed, enum manner manner)
{
    struct life *life = calloc(1, sizeof *life);
    int i;

    life->random = seed * 0x9E3779B97F4A7C15u + 1;
    life->manner = manner;
    world_make_connected(&life->world);
    for (i = 0; i < STEPS && test_sum.broken_checks == 0; i++) {
        step(life);
    }
    is_still_usable(life);
    if (test_sum.broken_checks != 0) {
        static const char *const NAMES[] = {"lying", "honest", "calm"};
        printf("seed %llu, %s Linux, step %d\n", (unsigned long long)seed, NAMES[manner], i);
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
        live(seed, HONEST);
    }
}

static void a_lying_linux_does_no_harm(void)
{
    uint64_t seed;

    for (seed = first_seed(); seed < first_seed() + RUNS; seed++) {
        live(seed, LYING);
    }
}

static void no_reference_is_made_or_lost_while_ports_come_and_go(void)
{
    uint64_t seed;

    for (seed = first_seed(); seed < first_seed() + RUNS; seed++) {
        live(seed, CALM);
    }
}

void test_random(void)
{
    printf("random: seed %llu\n", (unsigned long long)first_seed());
    RUN(an_honest_linux_never_sees_an_old_message);
    RUN(no_reference_is_made_or_lost_while_ports_come_and_go);
    RUN(a_lying_linux_does_no_harm);
}
