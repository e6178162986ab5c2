/*
 * The ordinary life of a link over the model of cache_model.h: a program of its own, since the
 * library is compiled for it with cache_atomic.h. Core and Linux meet, ports attach and leave,
 * messages go both ways and through, requests are answered, events raised, either side sleeps, and
 * either starts again.
 *
 * `make -C rtos test` runs it, scripts/mutate-caches.sh runs it for each mutant of the library.
 * HYTHE_SEED=n begins with another seed. Takes no arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_linux.h"
#include "cache_model.h"
#include "hythe_rt.h"
#include "test.h"

enum {
    RUNS = 200,
    STEPS = 400,
    HELD_MAX = 3,
    OPEN_MAX = 4,
    LINK_BYTES = 12288,
    REQUEST_HEADER_WORDS = 4
};

struct life {
    struct cache_linux linux_cpu;
    struct hythe_port port;
    struct hythe_link_config config;
    struct hythe_link link;
    struct hythe_client client;
    struct hythe_open_request open[OPEN_MAX];
    struct hythe_buffer held[HELD_MAX];
    uint32_t held_count;
    uint32_t now_ms;
    /* What the core sleeps for; CACHE_ENDPOINTS: for nothing that a ring announces. */
    uint32_t awaited;
    uint32_t sleeps;
    uint32_t events;
    uint32_t answers;
    /* Numbers that Linux had used when the core started: none of them is for this life of it. */
    uint32_t used[CACHE_FLOWS];
};

struct test_sum test_sum;

static const uint32_t AGENTS_END[4] = {0, 0, 1, 2};

static const struct hythe_endpoint_config ENDPOINTS[CACHE_ENDPOINTS] = {
    {"in", HYTHE_TO_CORE, 256, 5, 2, HYTHE_KIND_MESSAGES},
    {"out", HYTHE_FROM_CORE, 256, 7, 2, HYTHE_KIND_MESSAGES},
    {"ask", HYTHE_TO_CORE, 256, 9, 2, HYTHE_KIND_REQUESTS},
    {"query", HYTHE_FROM_CORE, 256, 11, 2, HYTHE_KIND_REQUESTS},
    {"rise", HYTHE_TO_CORE, 0, 0, 2, HYTHE_KIND_EVENTS},
    {"tell", HYTHE_FROM_CORE, 0, 0, 2, HYTHE_KIND_EVENTS},
};

/* ---- Lost wake-ups ---- */

/* 1: the core has echoed the session that Linux has for this flow, and neither has ended it. */
static int is_echoed(const struct life *life, uint32_t number)
{
    const struct hythe_endpoint *endpoint = &life->link.endpoints[number / CACHE_PORTS];
    const struct cache_flow *flow = &life->linux_cpu.flows[number];

    return life->linux_cpu.is_running && life->link.state == 1 &&
           life->link.linux_session == life->linux_cpu.side.session &&
           (endpoint->attached >> number % CACHE_PORTS & 1u) != 0 &&
           (flow->state == CACHE_ATTACHING || flow->state == CACHE_ATTACHED) &&
           endpoint->flows[number % CACHE_PORTS].session == flow->session;
}

/* 1: Linux has seen the echo, too. */
static int is_attached(const struct life *life, uint32_t number)
{
    return is_echoed(life, number) && life->linux_cpu.flows[number].state == CACHE_ATTACHED;
}

static const struct hythe_flow *flow_of(const struct life *life, uint32_t number)
{
    return &life->link.endpoints[number / CACHE_PORTS].flows[number % CACHE_PORTS];
}

static void check_that_linux_is_awake(const struct life *life)
{
    const struct cache_linux *linux_cpu = &life->linux_cpu;
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS && linux_cpu->is_asleep && !linux_cpu->is_rung; i++) {
        if (is_attached(life, i)) {
            CHECK_EQUAL(flow_of(life, i)->outbox_tail, linux_cpu->flows[i].head);
            CHECK(i / CACHE_PORTS != CACHE_TELL || !cache_is_pending(linux_cpu, i));
        }
    }
}

static void check_that_nothing_is_awaited(const struct life *life)
{
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS; i++) {
        if (i / CACHE_PORTS == life->awaited && is_attached(life, i)) {
            /* Who waits for a reply leaves the empty slots where they are. */
            CHECK_EQUAL(life->awaited == CACHE_QUERY ? life->client.ports[i % CACHE_PORTS].looked
                                                     : flow_of(life, i)->inbox_head,
                        life->linux_cpu.flows[i].tail);
            CHECK(life->awaited != CACHE_RISE || !cache_is_pending(&life->linux_cpu, i));
        }
    }
}

/* ---- The port ---- */

static void port_wait(void *context, uint32_t timeout_ms)
{
    struct life *life = context;
    uint32_t steps = cache_random(8);

    check_that_linux_is_awake(life);
    life->now_ms += timeout_ms;
    life->sleeps++;
    while (steps > 0 && !life->linux_cpu.core_is_rung && test_sum.broken_checks == 0) {
        cache_linux_step(&life->linux_cpu);
        steps--;
    }
    if (life->linux_cpu.core_is_rung) {
        life->linux_cpu.core_is_rung = 0;
        cache_rung(CACHE_CORE);
    } else {
        check_that_nothing_is_awaited(life);
    }
}

static void port_ring(void *context)
{
    cache_linux_ring(&((struct life *)context)->linux_cpu);
}

static uint32_t port_now(void *context)
{
    return ((struct life *)context)->now_ms;
}

static void port_clean(void *context, const volatile void *at, size_t bytes)
{
    (void)context;
    cache_clean(CACHE_CORE, at, bytes);
}

static void port_invalidate(void *context, const volatile void *at, size_t bytes)
{
    (void)context;
    cache_invalidate(CACHE_CORE, at, bytes);
}

static void between(void *context)
{
    struct life *life = context;

    if (test_sum.broken_checks == 0) {
        cache_linux_step(&life->linux_cpu);
    }
}

/* ---- The program on the core ---- */

static volatile uint32_t *word_of(const struct hythe_buffer *buffer, uint32_t index)
{
    return (volatile uint32_t *)(void *)buffer->data + index;
}

static struct cache_slot *slot_of(struct life *life, const struct hythe_buffer *buffer)
{
    return &life->linux_cpu.slots[(buffer->slot - life->linux_cpu.region) / CACHE_SLOT_BYTES];
}

/* Writes into the headroom as programs may, but not where the header of a request goes. */
static void write_headroom(const struct life *life, const struct hythe_buffer *buffer)
{
    uint32_t first = buffer->endpoint == life->client.endpoint ? REQUEST_HEADER_WORDS : 0;
    uint32_t words = (uint32_t)(buffer->data - buffer->slot) / 4 - first;
    uint32_t writes = words == 0 ? 0 : cache_random(4);

    for (; writes > 0; writes--) {
        uint32_t at = first + cache_random(words);
        cache_store(CACHE_CORE, (volatile uint32_t *)(void *)buffer->slot + at, at, 0);
    }
}

/* Fills a leased buffer, and says how much of it is the message. */
static uint32_t core_fills(struct life *life, const struct hythe_buffer *buffer)
{
    struct cache_slot *slot = slot_of(life, buffer);
    uint32_t filled = 1 + cache_random(CACHE_PAYLOAD_WORDS);
    uint32_t i;

    write_headroom(life, buffer);
    life->linux_cpu.patterns++;
    slot->pattern = life->linux_cpu.patterns;
    slot->words = 1 + cache_random(filled);
    for (i = 0; i < filled; i++) {
        cache_store(CACHE_CORE, word_of(buffer, i), cache_pattern(slot->pattern, i), 0);
    }
    return 4 * slot->words;
}

static int is_filled_by_core(uint32_t endpoint)
{
    return endpoint == CACHE_OUT || endpoint == CACHE_QUERY;
}

static int take_from(struct life *life, uint32_t endpoint, struct hythe_buffer *buffer,
                     uint32_t timeout_ms)
{
    struct hythe_endpoint *from = hythe_link_endpoint(&life->link, endpoint);

    switch (endpoint) {
    case CACHE_OUT:
        return hythe_lease(from, buffer, timeout_ms);
    case CACHE_QUERY:
        return hythe_request_lease(&life->client, buffer, timeout_ms);
    default:
        return hythe_receive(from, buffer, timeout_ms);
    }
}

static void core_takes(struct life *life)
{
    struct hythe_buffer *buffer = &life->held[life->held_count];
    uint32_t endpoint = cache_random(CACHE_QUEUES);
    uint32_t timeout_ms = cache_random(2) * 30;
    const struct cache_slot *slot;
    uint32_t i;
    int result;

    if (life->held_count == HELD_MAX) {
        return;
    }
    life->awaited = endpoint;
    result = take_from(life, endpoint, buffer, timeout_ms);
    life->awaited = CACHE_ENDPOINTS;
    if (result != HYTHE_OK || test_sum.broken_checks != 0) {
        return;
    }
    life->held_count++;
    slot = slot_of(life, buffer);
    CHECK_EQUAL(slot->references, cache_references(endpoint * CACHE_PORTS));
    CHECK_EQUAL(slot->flow, endpoint * CACHE_PORTS + buffer->port);
    CHECK_EQUAL(slot->generation, buffer->words[1]);
    CHECK_EQUAL(buffer->length, is_filled_by_core(endpoint) ? 256 : 4 * slot->words);
    if (is_filled_by_core(endpoint) && cache_random(2) == 0) {
        (void)core_fills(life, buffer);
    }
    for (i = 0; !is_filled_by_core(endpoint) && i < buffer->length / 4; i++) {
        CHECK_EQUAL(cache_load(CACHE_CORE, word_of(buffer, i), 0), cache_pattern(slot->pattern, i));
    }
}

/* Writes where the request was, and replies or gives the request up. */
static int core_answers(struct life *life, struct hythe_buffer *buffer)
{
    struct cache_slot *slot = slot_of(life, buffer);
    uint32_t filled = cache_random(1 + buffer->length / 4);
    uint32_t i;

    CHECK_EQUAL(hythe_reply_capacity(buffer), CACHE_SLOT_BYTES - slot->offset);
    life->linux_cpu.patterns++;
    slot->pattern = life->linux_cpu.patterns;
    slot->kind = cache_random(3) == 0 ? 3 : 2;
    if (slot->kind == 2) {
        slot->words = cache_random(1 + CACHE_PAYLOAD_WORDS);
        filled = slot->words > filled ? slot->words : filled;
    }
    for (i = 0; i < filled; i++) {
        cache_store(CACHE_CORE, word_of(buffer, i), cache_pattern(slot->pattern, i), 0);
    }
    return slot->kind == 2 ? hythe_reply(buffer, 4 * slot->words) : hythe_release(buffer);
}

/* Takes what any open request has come to; or forgets one. */
static void core_hears(struct life *life)
{
    struct hythe_buffer *reply = &life->held[life->held_count];
    uint32_t timeout_ms = cache_random(2) * 30;
    const struct cache_slot *slot;
    uint64_t number = 0;
    uint32_t i;
    int result;

    if (life->held_count == HELD_MAX) {
        return;
    }
    if (cache_random(16) == 0) {
        (void)hythe_request_forget(&life->client, life->open[cache_random(OPEN_MAX)].number);
        return;
    }
    life->awaited = CACHE_QUERY;
    result = hythe_reply_wait(&life->client, &number, reply, timeout_ms);
    life->awaited = CACHE_ENDPOINTS;
    CHECK(result == HYTHE_OK || result == HYTHE_E_TIMEOUT || result == HYTHE_E_ARGUMENT ||
          result == HYTHE_E_LOST || result == HYTHE_E_GIVEN_UP);
    if (result != HYTHE_OK || test_sum.broken_checks != 0) {
        return;
    }
    life->held_count++;
    life->answers++;
    slot = slot_of(life, reply);
    CHECK_EQUAL(slot->references, 1);
    CHECK_EQUAL(slot->flow, CACHE_QUERY * CACHE_PORTS + reply->port);
    CHECK_EQUAL(slot->kind, 2);
    CHECK_EQUAL(reply->length, 4 * slot->words);
    for (i = 0; i < reply->length / 4; i++) {
        CHECK_EQUAL(cache_load(CACHE_CORE, word_of(reply, i), 0), cache_pattern(slot->pattern, i));
    }
}

/* Sends a leased slot as a request, or gives it back; a reply goes back. */
static int core_asks(struct life *life, struct hythe_buffer *buffer)
{
    int is_reply = (buffer->words[6] | buffer->words[7]) != 0;
    uint64_t number;

    if (is_reply || cache_random(4) == 0) {
        return hythe_release(buffer);
    }
    return hythe_request_send(&life->client, buffer, core_fills(life, buffer), &number);
}

static void core_waits(struct life *life)
{
    uint64_t events = 0;
    uint64_t known = 0;
    uint32_t timeout_ms = cache_random(2) * 30;
    uint32_t port;
    uint32_t i;

    life->awaited = CACHE_RISE;
    (void)hythe_event_wait(hythe_link_endpoint(&life->link, CACHE_RISE), &events, timeout_ms);
    life->awaited = CACHE_ENDPOINTS;
    for (port = 0; port < CACHE_PORTS; port++) {
        uint32_t number = CACHE_RISE * CACHE_PORTS + port;
        struct cache_flow *flow = &life->linux_cpu.flows[number];
        for (i = 0; i < CACHE_EVENTS; i++) {
            uint64_t bit = (uint64_t)cache_event_bit(number, i) << 32 * i;
            volatile uint32_t *word = cache_announced(&life->linux_cpu, number, i);
            known |= bit;
            if ((events & bit) != 0) {
                flow->takes[i]++;
                CHECK(flow->takes[i] <= flow->flips[i]);
                cache_invalidate(CACHE_CORE, word, sizeof *word);
                flow->looked[i] = cache_load(CACHE_CORE, word, 0);
                life->events++;
            }
        }
    }
    CHECK((events & ~known) == 0);
}

static void core_raises(struct life *life)
{
    uint32_t first = CACHE_TELL * CACHE_PORTS;
    uint32_t which = 1 + cache_random(3);
    uint32_t announced[CACHE_EVENTS] = {0, 0};
    uint32_t sessions[CACHE_PORTS];
    uint64_t events = 0;
    uint32_t i;
    int result;

    for (i = 0; i < CACHE_PORTS; i++) {
        sessions[i] = is_echoed(life, first + i) ? flow_of(life, first + i)->session : 0;
    }
    for (i = 0; i < CACHE_EVENTS; i++) {
        if ((which >> i & 1) != 0) {
            volatile uint32_t *word = cache_announced(&life->linux_cpu, first, i);
            life->linux_cpu.announcements++;
            announced[i] = life->linux_cpu.announcements;
            cache_store(CACHE_CORE, word, announced[i], 0);
            cache_clean(CACHE_CORE, word, sizeof *word);
            events |= (uint64_t)cache_event_bit(first, i) << 32 * i;
        }
    }
    result = hythe_event_raise(hythe_link_endpoint(&life->link, CACHE_TELL), events);
    for (i = 0; i < CACHE_PORTS * CACHE_EVENTS && result == HYTHE_OK; i++) {
        uint32_t number = first + i / CACHE_EVENTS;
        uint32_t event = i % CACHE_EVENTS;
        /* Those that had this session all the while were told, or look when they see the echo. */
        if (announced[event] != 0 && is_echoed(life, number) &&
            flow_of(life, number)->session == sessions[i / CACHE_EVENTS]) {
            life->linux_cpu.flows[number].announced[event] = announced[event];
        }
    }
}

static void core_gives(struct life *life)
{
    struct hythe_endpoint *out = hythe_link_endpoint(&life->link, CACHE_OUT);
    uint32_t at = cache_random(HELD_MAX);
    struct hythe_buffer *buffer = &life->held[at];
    uint32_t timeout_ms = cache_random(2) * 15;
    int result;

    if (at >= life->held_count) {
        return;
    }
    if (buffer->endpoint == life->client.endpoint) {
        result = core_asks(life, buffer);
    } else if (buffer->endpoint->kind == HYTHE_KIND_REQUESTS) {
        result = core_answers(life, buffer);
    } else if (buffer->endpoint != out) {
        result =
            cache_random(2) == 0 ? hythe_forward(buffer, out, timeout_ms) : hythe_release(buffer);
    } else {
        uint32_t length = core_fills(life, buffer);
        result = cache_random(4) != 0 ? hythe_publish(buffer, length, timeout_ms)
                                      : hythe_release(buffer);
    }
    CHECK(result == HYTHE_OK || result == HYTHE_STALE || result == HYTHE_E_FULL ||
          result == HYTHE_E_DETACHED);
    if (buffer->endpoint == NULL) {
        *buffer = life->held[--life->held_count];
    }
}

static void core_starts(struct life *life)
{
    uint32_t i;

    if (cache_random(2) == 0) {
        cache_reset(CACHE_CORE);
    } else {
        /* The program alone starts again, and drops what an earlier one had written to slots. */
        cache_invalidate(CACHE_CORE, cache_memory() + LINK_BYTES, CACHE_MEMORY_BYTES - LINK_BYTES);
    }
    for (i = 0; i < CACHE_FLOWS; i++) {
        life->used[i] = life->linux_cpu.flows[i].session;
    }
    memset(&life->link, 0xA5, sizeof life->link);
    life->link.endpoint_count = 0;
    life->link.state = 0;
    life->held_count = 0;
    CHECK_EQUAL(hythe_link_start(&life->link, &life->config), HYTHE_OK);
    CHECK_EQUAL(hythe_client_start(&life->client, hythe_link_endpoint(&life->link, CACHE_QUERY),
                                   life->open, OPEN_MAX),
                HYTHE_OK);
}

static void check_counters(struct life *life)
{
    struct hythe_counters counters;
    uint32_t i;

    for (i = 0; i < CACHE_ENDPOINTS; i++) {
        hythe_endpoint_counters(hythe_link_endpoint(&life->link, i), &counters);
        CHECK_EQUAL(counters.violations, 0);
    }
}

/* What the core wrote into the link is in memory when a call returns. */
static void check_that_all_is_clean(void)
{
    CHECK_EQUAL(cache_dirty_lines(CACHE_CORE, cache_memory(), LINK_BYTES), 0);
}

/* Where memory is coherent, Linux's newest session may reach the core later. */
static void check_sessions(const struct life *life)
{
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS && life->port.clean != NULL && life->link.state == 1; i++) {
        CHECK(flow_of(life, i)->session == 0 || flow_of(life, i)->session > life->used[i]);
    }
}

static void check_events(const struct life *life)
{
    uint32_t i;

    for (i = CACHE_RISE * CACHE_PORTS; i < CACHE_FLOWS; i++) {
        if (is_attached(life, i)) {
            cache_check_events(&life->linux_cpu, i);
        }
    }
}

static void step(struct life *life)
{
    uint32_t what = cache_random(300);

    if (what >= 260) {
        core_hears(life);
    } else if (what >= 230) {
        core_raises(life);
    } else if (what >= 200) {
        core_waits(life);
    } else if (what < 80) {
        core_takes(life);
    } else if (what < 180) {
        core_gives(life);
    } else if (what < 199) {
        (void)hythe_link_service(&life->link);
    } else if (life->linux_cpu.agents_end != 0) {
        core_starts(life);
    }
    check_that_linux_is_awake(life);
    check_counters(life);
    check_sessions(life);
    check_events(life);
    check_that_all_is_clean();
    between(life);
}

/* Nobody leaves any more, and the core takes and releases all: what was sent arrives. */
static void finish(struct life *life)
{
    uint32_t rounds;
    int is_done = 0;

    life->linux_cpu.is_closing = 1;
    for (rounds = 0; rounds < 5000 && !is_done && test_sum.broken_checks == 0; rounds++) {
        uint32_t i;
        core_takes(life);
        core_gives(life);
        core_waits(life);
        core_hears(life);
        check_events(life);
        between(life);
        is_done = cache_linux_is_done(&life->linux_cpu);
        for (i = 0; i < CACHE_FLOWS; i++) {
            is_done = is_done && is_attached(life, i) &&
                      flow_of(life, i)->inbox_head == life->linux_cpu.flows[i].tail &&
                      flow_of(life, i)->outbox_tail == life->linux_cpu.flows[i].head &&
                      (i / CACHE_PORTS < CACHE_RISE || !cache_is_pending(&life->linux_cpu, i));
        }
    }
    CHECK(is_done || test_sum.broken_checks != 0);
}

static int poll(struct life *life)
{
    struct hythe_buffer buffer;
    int result = HYTHE_OK;
    uint32_t i;

    /* The words are in the cache by the first. */
    for (i = 0; i < 3; i++) {
        result = hythe_receive(hythe_link_endpoint(&life->link, 0), &buffer, 0);
    }
    return result;
}

/* A program that only polls sees that a port left, and that the agent did. */
static void finish_polling(struct life *life)
{
    life->linux_cpu.is_still = 1;
    CHECK_EQUAL(poll(life), HYTHE_E_TIMEOUT);
    cache_linux_leave(&life->linux_cpu, 0);
    CHECK_EQUAL(poll(life), HYTHE_E_TIMEOUT);
    /* The end of a session is answered when nothing of it is held. */
    CHECK(flow_of(life, 0)->session == 0 || flow_of(life, 0)->held != 0);
    cache_linux_end_agent(&life->linux_cpu);
    CHECK_EQUAL(poll(life), HYTHE_E_DOWN);
}

static void prepare(struct life *life, enum cache_kind kind, uint64_t seed)
{
    memset(life, 0, sizeof *life);
    cache_begin(kind, seed, between, life);
    cache_linux_begin(&life->linux_cpu, cache_memory(), cache_memory() + LINK_BYTES);
    life->linux_cpu.agents_end = AGENTS_END[cache_random(4)];
    life->awaited = CACHE_ENDPOINTS;
    life->port.context = life;
    life->port.wait = port_wait;
    life->port.ring = port_ring;
    life->port.now_ms = port_now;
    if (kind == CACHE_PRIVATE) {
        life->port.clean = port_clean;
        life->port.invalidate = port_invalidate;
    }
    life->config.link = cache_memory();
    life->config.link_bytes = LINK_BYTES;
    life->config.region = cache_memory() + LINK_BYTES;
    life->config.region_bytes = CACHE_MEMORY_BYTES - LINK_BYTES;
    life->config.name = "core";
    life->config.endpoints = ENDPOINTS;
    life->config.endpoint_count = CACHE_ENDPOINTS;
    life->config.port = &life->port;
}

static void live(enum cache_kind kind, uint64_t first_seed)
{
    static struct life life;
    uint32_t sent = 0;
    uint32_t received = 0;
    uint32_t sleeps = 0;
    uint32_t replies = 0;
    uint32_t answers = 0;
    uint32_t raised = 0;
    uint32_t told = 0;
    uint64_t seed;
    int i;

    for (seed = first_seed; seed < first_seed + RUNS && test_sum.broken_checks == 0; seed++) {
        prepare(&life, kind, seed);
        cache_fill(CACHE_CORE);
        core_starts(&life);
        for (i = 0; i < STEPS && test_sum.broken_checks == 0; i++) {
            step(&life);
        }
        if (test_sum.broken_checks == 0) {
            finish(&life);
        }
        /* In weakly ordered memory it may take any time. */
        if (test_sum.broken_checks == 0 && kind == CACHE_PRIVATE) {
            finish_polling(&life);
        }
        sent += life.linux_cpu.sent;
        received += life.linux_cpu.received;
        sleeps += life.sleeps;
        replies += life.linux_cpu.replies;
        answers += life.answers;
        raised += life.events;
        told += life.linux_cpu.events;
        if (test_sum.broken_checks != 0) {
            printf("seed %llu, step %d\n", (unsigned long long)seed, i);
        }
    }
    printf("%s: %u messages to the core, %u from it, %u sleeps of it\n",
           kind == CACHE_COHERENT ? "coherent" : "private caches", sent, received, sleeps);
    printf("    %u replies, %u answers to the core, %u events to it, %u from it\n", replies,
           answers, raised, told);
    /* A link over which nothing goes would find nothing. */
    CHECK(sent > 10 * RUNS && received > 10 * RUNS && sleeps > 10 * RUNS);
    CHECK(replies > RUNS && answers > RUNS && raised > RUNS && told > RUNS);
}

int main(void)
{
    const char *text = getenv("HYTHE_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20261123u;

    printf("caches: seed %llu\n", (unsigned long long)seed);
    live(CACHE_COHERENT, seed);
    if (test_sum.broken_checks == 0) {
        live(CACHE_PRIVATE, seed);
    }
    printf("%s\n", test_sum.broken_checks == 0 ? "passed" : "FAILED");
    return test_sum.broken_checks != 0;
}
