/* The Linux side of cache_linux.h. Called by cache_life.c. Never looks into the library. */
#include "cache_linux.h"

#include <string.h>

#include "cache_model.h"
#include "test.h"

#define HEADROOM 256u
#define AT_SESSION 0u
#define AT_START 4u
#define AT_TAIL 8u
#define AT_HEAD 12u
#define AT_WINDOW 16u
#define AT_RAISED 20u
#define AT_SEEN 28u
#define AT_WANTED 36u
/* Of the header of a request. */
#define WORD_KIND 0u
#define WORD_NUMBER 2u
#define HEADER_BYTES 16u
#define NUMBER_HIGH 0x13579BDFu

uint32_t cache_pattern(uint32_t pattern, uint32_t index)
{
    return index == 0 ? pattern : pattern * 0x9E3779B1u + index * 0x85EBCA77u;
}

/* ---- Words: spec/link.md, "Caches" ---- */

static uint32_t read_word(const volatile uint32_t *word)
{
    cache_invalidate(CACHE_LINUX, word, sizeof *word);
    return cache_load(CACHE_LINUX, word, 1);
}

static void write_word(volatile uint32_t *word, uint32_t value)
{
    cache_store(CACHE_LINUX, word, value, 1);
    cache_clean(CACHE_LINUX, word, sizeof *word);
}

static void ring_core(struct cache_linux *self)
{
    cache_fence(CACHE_LINUX);
    if (read_word(core_word(&self->side, self->side.line_bytes + 4)) != 0) {
        cache_ring(CACHE_LINUX);
        self->core_is_rung = 1;
    }
}

void cache_linux_ring(struct cache_linux *self)
{
    cache_ring(CACHE_CORE);
    self->is_rung = 1;
}

/* ---- The agent ---- */

static void write_header(struct cache_linux *self)
{
    const struct linux_side *side = &self->side;
    const struct slot_class *slots = &side->slot_class[0];
    uint32_t header[10] = {0x4C4C5948u,      2,
                           side->line_bytes, side->section_bytes,
                           side->endpoints,  side->capacity,
                           side->region,     side->region_bytes,
                           side->classes,    HEADROOM};
    uint32_t i;

    for (i = 0; i < 10; i++) {
        write_word(linux_word(side, 4 * i), header[i]);
    }
    write_word(linux_word(side, 44), side->ports);
    write_word(linux_word(side, 2 * side->line_bytes), slots->slot_bytes);
    write_word(linux_word(side, 2 * side->line_bytes + 4), slots->slot_count);
    write_word(linux_word(side, 2 * side->line_bytes + 8), slots->first_slot);
    write_word(linux_word(side, 2 * side->line_bytes + 12), slots->region_offset);
    write_word(linux_word(side, side->line_bytes + 4), 1);
}

/* All that the core had is Linux's again, and no flow is attached. */
static void forget_core(struct cache_linux *self)
{
    uint32_t i;

    for (i = 0; i < CACHE_SLOTS; i++) {
        self->slots[i].references = 0;
        self->slots[i].is_asked = 0;
    }
    for (i = 0; i < CACHE_FLOWS; i++) {
        self->flows[i].state = CACHE_DETACHED;
        self->flows[i].out = 0;
    }
    self->core_session = 0;
}

static void scribble_events(struct cache_linux *self, const struct cache_flow *flow)
{
    uint32_t i;

    for (i = 0; i < CACHE_EVENTS; i++) {
        write_word(linux_flow(&self->side, flow->name, AT_RAISED + 4 * i), ~flow->raised[i]);
        write_word(linux_flow(&self->side, flow->name, AT_SEEN + 4 * i), ~flow->seen[i]);
    }
}

/* The agent leaves: what the flows have means nothing any more, though they do not say so. */
static void scribble(struct cache_linux *self)
{
    uint32_t entry;
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS; i++) {
        if (self->flows[i].state == CACHE_ATTACHING) {
            write_word(linux_flow(&self->side, self->flows[i].name, AT_SESSION), 0);
            write_word(linux_flow(&self->side, self->flows[i].name, AT_WINDOW), 0x5A5A5A5Au);
        }
        write_word(linux_flow(&self->side, self->flows[i].name, AT_TAIL), 0x5A5A5A5Au);
        write_word(linux_flow(&self->side, self->flows[i].name, AT_HEAD), 0xA5A5A5A5u);
        scribble_events(self, &self->flows[i]);
        for (entry = 0; entry < CACHE_CAPACITY; entry++) {
            write_word(linux_entry(&self->side, self->flows[i].name, entry), 0x5A5A5A5Au);
        }
    }
}

static void end_agent(struct cache_linux *self)
{
    write_word(linux_word(&self->side, 40), 0);
    scribble(self);
    self->is_running = 0;
}

static void start_agent(struct cache_linux *self)
{
    uint32_t i;

    self->is_running = 1;
    for (i = 0; i < CACHE_FLOWS; i++) {
        write_word(linux_flow(&self->side, self->flows[i].name, AT_SESSION), 0);
    }
    write_header(self);
    self->side.session++;
    write_word(linux_word(&self->side, 40), self->side.session);
    self->is_asleep = 0;
}

/* What the core answers with. Its name is "core". */
static void check_header(struct cache_linux *self)
{
    static const uint32_t HEADER[9][2] = {{0, 0x434C5948u},  {4, 2},  {16, 0}, {24, 6}, {28, 64},
                                          {32, 0x65726F63u}, {36, 0}, {56, 0}, {60, 0}};
    static const uint32_t RECORDS[CACHE_ENDPOINTS][7] = {
        {0x6E69u, 0, 1, 256, 5, 0, 0},   {0x74756Fu, 0, 2, 256, 7, 0, 0},
        {0x6B7361u, 0, 1, 256, 9, 1, 0}, {0x72657571u, 0, 2, 256, 11, 1, 0},
        {0x65736972u, 0, 1, 0, 0, 2, 0}, {0x6C6C6574u, 0, 2, 0, 0, 2, 0}};
    static const uint32_t AT[7] = {0, 28, 32, 36, 40, 44, 48};
    const struct linux_side *side = &self->side;
    uint32_t i;
    uint32_t j;

    for (i = 0; i < 9; i++) {
        CHECK_EQUAL(read_word(core_word(side, HEADER[i][0])), HEADER[i][1]);
    }
    for (i = 0; i < CACHE_ENDPOINTS; i++) {
        for (j = 0; j < 7; j++) {
            CHECK_EQUAL(read_word(core_word(side, 2 * side->line_bytes + 64 * i + AT[j])),
                        RECORDS[i][j]);
        }
    }
    for (i = 0; i < CACHE_PORTS; i++) {
        CHECK_EQUAL(read_word(core_flow(side, LINUX_FLOW(CACHE_ENDPOINTS, i), AT_SESSION)), 0);
    }
}

/* 1: the core has answered, and is still the one that was met. */
static int meet_core(struct cache_linux *self)
{
    uint32_t session = read_word(core_word(&self->side, 8));
    uint32_t state;

    if (self->core_session != 0 && session != self->core_session) {
        forget_core(self);
    }
    state = read_word(core_word(&self->side, 12));
    if (state == 0 || read_word(core_word(&self->side, 20)) != self->side.session) {
        return 0;
    }
    CHECK_EQUAL(state, 1);
    if (self->core_session == 0) {
        check_header(self);
        self->core_session = session;
    }
    return session == self->core_session;
}

/* ---- What comes back ---- */

uint8_t *cache_slot_bytes(const struct cache_linux *self, uint32_t slot)
{
    return self->region + slot * CACHE_SLOT_BYTES;
}

static uint8_t *payload_of(const struct cache_linux *self, uint32_t slot)
{
    return cache_slot_bytes(self, slot) + self->slots[slot].offset;
}

volatile uint32_t *cache_word_at(uint8_t *bytes, uint32_t index)
{
    return (volatile uint32_t *)(void *)bytes + index;
}

void cache_check_payload(struct cache_linux *self, uint32_t index, uint32_t length)
{
    const struct cache_slot *slot = &self->slots[index];
    uint8_t *payload = payload_of(self, index);
    uint32_t i;

    CHECK_EQUAL(length, 4 * slot->words);
    cache_invalidate(CACHE_LINUX, payload, length);
    for (i = 0; i < length / 4 && i < CACHE_PAYLOAD_WORDS; i++) {
        CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(payload, i), 0),
                    cache_pattern(slot->pattern, i));
    }
}

/* A request comes back: with the reply, or given up. Its number is as Linux wrote it. */
static void check_reply(struct cache_linux *self, const struct cache_slot *slot, uint32_t index,
                        uint32_t length)
{
    uint8_t *header = cache_slot_bytes(self, index);

    cache_invalidate(CACHE_LINUX, header, HEADER_BYTES);
    CHECK(slot->kind == 2 || slot->kind == 3);
    CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(header, WORD_KIND), 0), slot->kind);
    CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(header, WORD_NUMBER), 0), slot->number);
    CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(header, WORD_NUMBER + 1), 0), NUMBER_HIGH);
    if (slot->kind == 2) {
        cache_check_payload(self, index, length);
    } else {
        CHECK_EQUAL(length, 0);
    }
    self->replies++;
}

static void uncount(struct cache_linux *self, struct cache_slot *slot)
{
    if (slot->counted) {
        self->flows[slot->flow].out--;
        slot->counted = 0;
    }
}

static void take_back(struct cache_linux *self, uint32_t slot, uint32_t references)
{
    self->slots[slot].references -= references;
    if (self->slots[slot].references == 0) {
        /* A line that is still dirty would be written back into what Linux writes next. */
        CHECK_EQUAL(cache_dirty_lines(CACHE_CORE, cache_slot_bytes(self, slot), CACHE_SLOT_BYTES),
                    0);
    }
}

static void judge(struct cache_linux *self, uint32_t number, const uint32_t words[8])
{
    uint32_t index = (words[0] & 0xFFFFFFu) - CACHE_FIRST_SLOT;
    struct cache_slot *slot = &self->slots[index % CACHE_SLOTS];

    CHECK_EQUAL(words[0] >> 24, self->side.region);
    CHECK(index < CACHE_SLOTS);
    if (words[3] == LINUX_CREDIT) {
        /* The slot may have gone round since: a credit is one of this flow's places only. */
        CHECK(self->flows[number].out > 0);
        self->flows[number].out--;
        return;
    }
    CHECK_EQUAL(words[1], slot->generation);
    CHECK_EQUAL(words[4], 3);
    CHECK(words[5] >= 1 && words[5] <= slot->references);
    if (test_sum.broken_checks != 0) {
        return;
    }
    if (number / CACHE_PORTS == CACHE_OUT && words[3] != LINUX_UNUSED) {
        CHECK_EQUAL(words[2], slot->offset);
        cache_check_payload(self, index, words[3]);
        self->received++;
    } else {
        CHECK_EQUAL(slot->flow, number);
        if (number / CACHE_PORTS == CACHE_ASK) {
            check_reply(self, slot, index, words[3]);
        }
    }
    if (number / CACHE_PORTS == CACHE_QUERY && words[3] != LINUX_UNUSED) {
        take_back(self, index, words[5]);
        cache_server_take(self, index, words);
        return;
    }
    /* Of a forwarded one the place is freed by its credit. */
    if (slot->flow / CACHE_PORTS == CACHE_OUT || slot->flow == number) {
        uncount(self, slot);
    }
    take_back(self, index, words[5]);
}

/* 1 if there was an entry. */
static int take(struct cache_linux *self, uint32_t number)
{
    struct cache_flow *flow = &self->flows[number];
    volatile uint32_t *entry = core_entry(&self->side, flow->name, flow->head);
    uint32_t words[8];
    uint32_t i;

    if (read_word(core_flow(&self->side, flow->name, AT_TAIL)) == flow->head) {
        return 0;
    }
    cache_invalidate(CACHE_LINUX, entry, 32);
    for (i = 0; i < 8; i++) {
        words[i] = cache_load(CACHE_LINUX, &entry[i], 0);
    }
    judge(self, number, words);
    flow->head++;
    write_word(linux_flow(&self->side, flow->name, AT_HEAD), flow->head);
    return 1;
}

static void take_all(struct cache_linux *self)
{
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS; i++) {
        if (self->flows[i].state == CACHE_ATTACHED || self->flows[i].state == CACHE_ENDING) {
            while (test_sum.broken_checks == 0 && take(self, i)) {
            }
        }
    }
}

/* ---- Events ---- */

static int is_raised_by_core(uint32_t number)
{
    return number / CACHE_PORTS == CACHE_TELL;
}

/* The last lines of memory: one is Linux's, one the core's. */
volatile uint32_t *cache_announced(const struct cache_linux *self, uint32_t number, uint32_t event)
{
    uint8_t *lines = self->region + CACHE_SLOTS * CACHE_SLOT_BYTES;

    return is_raised_by_core(number)
               ? cache_word_at(lines + CACHE_LINE_BYTES, event)
               : cache_word_at(lines, number % CACHE_PORTS * CACHE_EVENTS + event);
}

/* To the core, each port has its own, so that the core can tell whose it took. */
uint32_t cache_event_bit(uint32_t number, uint32_t event)
{
    return 1u << (is_raised_by_core(number) ? event : number % CACHE_PORTS);
}

/* Pending events of one word, whatever either side may know of it by now. */
static uint32_t pending_of(const struct cache_linux *self, uint32_t number, uint32_t event)
{
    const struct cache_flow *flow = &self->flows[number];
    int is_from_core = is_raised_by_core(number);
    uint32_t at = (is_from_core ? AT_RAISED : AT_SEEN) + 4 * event;

    return (is_from_core ? flow->seen : flow->raised)[event] ^
           cache_peek(CACHE_CORE, core_flow(&self->side, flow->name, at));
}

int cache_is_pending(const struct cache_linux *self, uint32_t number)
{
    return (pending_of(self, number, 0) | pending_of(self, number, 1)) != 0;
}

void cache_check_events(const struct cache_linux *self, uint32_t number)
{
    const struct cache_flow *flow = &self->flows[number];
    uint32_t i;

    for (i = 0; i < CACHE_EVENTS; i++) {
        if ((pending_of(self, number, i) & cache_event_bit(number, i)) == 0) {
            CHECK(flow->looked[i] >= flow->announced[i]);
        }
    }
}

static void raise_event(struct cache_linux *self, uint32_t number)
{
    struct cache_flow *flow = &self->flows[number];
    uint32_t event = cache_random(CACHE_EVENTS);
    uint32_t bit = cache_event_bit(number, event);
    volatile uint32_t *word = cache_announced(self, number, event);
    uint32_t seen;

    if (flow->state != CACHE_ATTACHED) {
        return;
    }
    self->announcements++;
    cache_store(CACHE_LINUX, word, self->announcements, 0);
    cache_clean(CACHE_LINUX, word, sizeof *word);
    flow->announced[event] = self->announcements;
    cache_fence(CACHE_LINUX);
    seen = read_word(core_flow(&self->side, flow->name, AT_SEEN + 4 * event));
    if (((flow->raised[event] ^ seen) & bit) == 0) {
        flow->raised[event] ^= bit;
        flow->flips[event]++;
        write_word(linux_flow(&self->side, flow->name, AT_RAISED + 4 * event), flow->raised[event]);
        ring_core(self);
    }
}

/* `is_first`: the session begins, and what was raised before it is nobody's: the reader looks. */
static void take_events(struct cache_linux *self, uint32_t number, int is_first)
{
    struct cache_flow *flow = &self->flows[number];
    uint32_t taken[CACHE_EVENTS];
    uint32_t i;

    for (i = 0; i < CACHE_EVENTS; i++) {
        uint32_t raised = read_word(core_flow(&self->side, flow->name, AT_RAISED + 4 * i));
        taken[i] = raised ^ flow->seen[i];
        flow->seen[i] = raised;
        CHECK_EQUAL(raised & ~cache_event_bit(number, i), 0);
        write_word(linux_flow(&self->side, flow->name, AT_SEEN + 4 * i), raised);
    }
    cache_fence(CACHE_LINUX);
    for (i = 0; i < CACHE_EVENTS; i++) {
        if (taken[i] != 0 || is_first) {
            volatile uint32_t *word = cache_announced(self, number, i);
            cache_invalidate(CACHE_LINUX, word, sizeof *word);
            flow->looked[i] = cache_load(CACHE_LINUX, word, 0);
        }
        self->events += taken[i] != 0;
    }
}

/* ---- What is sent ---- */

uint32_t cache_references(uint32_t number)
{
    return number / CACHE_PORTS == CACHE_ASK || number / CACHE_PORTS == CACHE_QUERY ? 1
                                                                                    : CACHE_PORTS;
}

void cache_linux_push(struct cache_linux *self, uint32_t number, uint32_t index, uint32_t length,
                      const uint32_t tag[2])
{
    struct cache_flow *flow = &self->flows[number];
    struct cache_slot *slot = &self->slots[index];
    volatile uint32_t *entry = linux_entry(&self->side, flow->name, flow->tail);
    uint32_t references = cache_references(number);
    uint32_t words[8] = {
        self->side.region << 24, 0, slot->offset, length, 3, references, tag[0], tag[1]};
    uint32_t i;

    slot->generation++;
    slot->references = references;
    slot->flow = number;
    if (!slot->counted) {
        slot->counted = 1;
        flow->out++;
    }
    words[0] |= index + CACHE_FIRST_SLOT;
    words[1] = slot->generation;
    for (i = 0; i < 8; i++) {
        cache_store(CACHE_LINUX, &entry[i], words[i], 0);
    }
    cache_clean(CACHE_LINUX, entry, 32);
    flow->tail++;
    write_word(linux_flow(&self->side, flow->name, AT_TAIL), flow->tail);
    ring_core(self);
}

static void write_request(struct cache_linux *self, struct cache_slot *slot, uint8_t *header)
{
    slot->kind = 1;
    slot->number = self->patterns;
    cache_store(CACHE_LINUX, cache_word_at(header, WORD_KIND), slot->kind, 0);
    cache_store(CACHE_LINUX, cache_word_at(header, WORD_NUMBER), slot->number, 0);
    cache_store(CACHE_LINUX, cache_word_at(header, WORD_NUMBER + 1), NUMBER_HIGH, 0);
    cache_clean(CACHE_LINUX, header, HEADER_BYTES);
}

void cache_write_payload(struct cache_linux *self, uint32_t index)
{
    struct cache_slot *slot = &self->slots[index];
    uint8_t *payload = payload_of(self, index);
    uint32_t i;

    self->patterns++;
    slot->pattern = self->patterns;
    slot->words = 1 + cache_random(CACHE_PAYLOAD_WORDS);
    for (i = 0; i < slot->words; i++) {
        cache_store(CACHE_LINUX, cache_word_at(payload, i), cache_pattern(slot->pattern, i), 0);
    }
    cache_clean(CACHE_LINUX, payload, 4 * slot->words);
}

uint32_t cache_untaken(const struct cache_linux *self, uint32_t number)
{
    const struct cache_flow *flow = &self->flows[number];

    return flow->tail - read_word(core_flow(&self->side, flow->name, AT_HEAD));
}

static void give(struct cache_linux *self, uint32_t number)
{
    static const uint32_t no_tag[2] = {0, 0};
    uint32_t index = cache_random(CACHE_SLOTS);
    struct cache_slot *slot = &self->slots[index];
    int is_out = number / CACHE_PORTS == CACHE_OUT;
    int is_request = number / CACHE_PORTS == CACHE_ASK;

    if (slot->references != 0 || slot->is_asked || self->flows[number].state != CACHE_ATTACHED ||
        self->flows[number].out >= CACHE_CAPACITY - (is_out ? CACHE_WINDOW : 0)) {
        return;
    }
    /* An empty slot has had other uses in the pool since the core had it: what it has is noise. */
    slot->offset = is_request && cache_random(2) == 0 ? HEADER_BYTES : HEADROOM;
    slot->counted = 0;
    cache_write_payload(self, index);
    if (is_request) {
        write_request(self, slot, cache_slot_bytes(self, index));
    }
    cache_linux_push(self, number, index, is_out ? CACHE_SLOT_BYTES - HEADROOM : 4 * slot->words,
                     no_tag);
    self->sent += !is_out;
}

static void send(struct cache_linux *self, uint32_t number)
{
    if (number / CACHE_PORTS == CACHE_QUERY) {
        cache_server_step(self, number);
    } else if (number / CACHE_PORTS < CACHE_QUEUES) {
        give(self, number);
    } else if (number / CACHE_PORTS == CACHE_RISE) {
        raise_event(self, number);
    }
}

/* ---- Attaching ---- */

static void raise_changes(struct cache_linux *self)
{
    volatile uint32_t *changes = linux_word(&self->side, self->side.line_bytes + 8);

    write_word(changes, cache_load(CACHE_LINUX, changes, 0) + 1);
    ring_core(self);
}

static void write_flow(struct cache_linux *self, const struct cache_flow *flow, uint32_t offset,
                       uint32_t value)
{
    write_word(linux_flow(&self->side, flow->name, offset), value);
}

static void see_echo(struct cache_linux *self, uint32_t number)
{
    struct cache_flow *flow = &self->flows[number];

    if (read_word(core_flow(&self->side, flow->name, AT_SESSION)) == flow->session) {
        flow->head = read_word(core_flow(&self->side, flow->name, AT_START));
        write_flow(self, flow, AT_HEAD, flow->head);
        flow->state = CACHE_ATTACHED;
        if (is_raised_by_core(number)) {
            take_events(self, number, 1);
        }
        /* The core may have published already: the reader has one flow more to look at. */
        self->is_asleep = 0;
    }
}

static void end_flow(struct cache_linux *self, uint32_t number)
{
    uint32_t i;

    /* The core may have published slots of this flow where its echo was not looked at yet. */
    for (i = 0; i < CACHE_FLOWS; i++) {
        if (self->flows[i].state == CACHE_ATTACHING) {
            see_echo(self, i);
        }
    }
    take_all(self);
    for (i = 0; i < CACHE_SLOTS; i++) {
        if (self->slots[i].flow == number) {
            self->slots[i].references = 0;
            self->slots[i].is_asked = 0;
        }
    }
    self->flows[number].out = 0;
    self->flows[number].state = CACHE_DETACHED;
}

/* Events of an earlier session are nobody's. */
static void begin_events(struct cache_linux *self, struct cache_flow *flow)
{
    uint32_t i;

    for (i = 0; i < CACHE_EVENTS; i++) {
        write_flow(self, flow, AT_RAISED + 4 * i, flow->raised[i]);
        flow->announced[i] = 0;
        flow->looked[i] = 0;
        flow->flips[i] = 0;
        flow->takes[i] = 0;
    }
}

static void follow_flow(struct cache_linux *self, uint32_t number)
{
    struct cache_flow *flow = &self->flows[number];

    switch (flow->state) {
    case CACHE_DETACHED:
        flow->session++;
        write_flow(self, flow, AT_TAIL, flow->tail);
        write_flow(self, flow, AT_HEAD, flow->head);
        write_flow(self, flow, AT_WINDOW, CACHE_WINDOW);
        begin_events(self, flow);
        write_flow(self, flow, AT_START, flow->tail);
        write_flow(self, flow, AT_SESSION, flow->session);
        flow->state = CACHE_ATTACHING;
        raise_changes(self);
        break;
    case CACHE_ATTACHING:
        see_echo(self, number);
        break;
    case CACHE_ATTACHED:
        if (!self->is_closing && cache_random(8) == 0) {
            write_flow(self, flow, AT_SESSION, 0);
            /* What a port that has left writes means nothing. */
            write_flow(self, flow, AT_TAIL, flow->tail - 1000);
            write_flow(self, flow, AT_HEAD, flow->head + 1000);
            scribble_events(self, flow);
            flow->state = CACHE_ENDING;
            raise_changes(self);
        }
        break;
    case CACHE_ENDING:
        if (read_word(core_flow(&self->side, flow->name, AT_SESSION)) == 0) {
            end_flow(self, number);
        }
        break;
    }
}

/* ---- Sleeping ---- */

static int finds_events(struct cache_linux *self, const struct cache_flow *flow)
{
    uint32_t i;

    for (i = 0; i < CACHE_EVENTS; i++) {
        if (read_word(core_flow(&self->side, flow->name, AT_RAISED + 4 * i)) != flow->seen[i]) {
            return 1;
        }
    }
    return 0;
}

static int finds_nothing(struct cache_linux *self)
{
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS; i++) {
        const struct cache_flow *flow = &self->flows[i];
        if (flow->state == CACHE_ATTACHED &&
            (read_word(core_flow(&self->side, flow->name, AT_TAIL)) != flow->head ||
             (is_raised_by_core(i) && finds_events(self, flow)))) {
            return 0;
        }
    }
    return 1;
}

static void sleep_or_poll(struct cache_linux *self)
{
    uint32_t sleeps = cache_random(2);
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS; i++) {
        write_flow(self, &self->flows[i], AT_WANTED, sleeps);
    }
    if (sleeps) {
        cache_fence(CACHE_LINUX);
        self->is_asleep = finds_nothing(self);
    }
}

/* ---- Public ---- */

void cache_linux_begin(struct cache_linux *self, uint8_t *link, uint8_t *region)
{
    uint32_t i;

    memset(self, 0, sizeof *self);
    self->region = region + CACHE_REGION_OFFSET;
    self->side.link = link;
    self->side.line_bytes = CACHE_LINE_BYTES;
    /* Not half of the link, where a core looks that does not know it. */
    self->side.section_bytes = 4800;
    self->side.endpoints = CACHE_ENDPOINTS + 1;
    self->side.ports = CACHE_PORTS;
    self->side.capacity = CACHE_CAPACITY;
    self->side.region = 2;
    self->side.region_bytes = CACHE_REGION_OFFSET + CACHE_SLOTS * CACHE_SLOT_BYTES;
    linux_add_class(&self->side, CACHE_SLOT_BYTES, CACHE_SLOTS);
    self->side.slot_class[0].first_slot = CACHE_FIRST_SLOT;
    self->side.slot_class[0].region_offset = CACHE_REGION_OFFSET;
    for (i = 0; i < CACHE_FLOWS; i++) {
        self->flows[i].name = LINUX_FLOW(i / CACHE_PORTS, i % CACHE_PORTS);
    }
    /* An endpoint that this core does not have was answered by another one. */
    for (i = 0; i < CACHE_PORTS; i++) {
        write_word(core_flow(&self->side, LINUX_FLOW(CACHE_ENDPOINTS, i), AT_SESSION), 77);
    }
}

void cache_linux_leave(struct cache_linux *self, uint32_t flow)
{
    write_flow(self, &self->flows[flow], AT_SESSION, 0);
    raise_changes(self);
}

void cache_linux_end_agent(struct cache_linux *self)
{
    write_word(linux_word(&self->side, 40), 0);
}

void cache_linux_step(struct cache_linux *self)
{
    uint32_t what = cache_random(64);
    uint32_t number = cache_random(CACHE_FLOWS);

    if (self->is_still) {
        return;
    }

    if (self->is_rung) {
        self->is_rung = 0;
        self->is_asleep = 0;
        cache_rung(CACHE_LINUX);
    }
    if (!self->is_running) {
        if (cache_random(4) == 0) {
            start_agent(self);
        }
    } else if (what < self->agents_end && !self->is_closing) {
        end_agent(self);
        if (cache_random(2) == 0) {
            start_agent(self);
        }
    } else if (!meet_core(self)) {
        return;
    } else if (what < 32) {
        if (!self->is_closing || number / CACHE_PORTS == CACHE_QUERY) {
            send(self, number);
        }
    } else if (what < 40) {
        follow_flow(self, number);
    } else if (self->is_asleep) {
        return;
    } else if (what < 60) {
        if (self->flows[number].state == CACHE_ATTACHED && is_raised_by_core(number)) {
            take_events(self, number, 0);
        } else if (self->flows[number].state == CACHE_ATTACHED) {
            (void)take(self, number);
        }
    } else {
        sleep_or_poll(self);
    }
}

int cache_linux_is_done(struct cache_linux *self)
{
    uint32_t i;

    for (i = 0; i < CACHE_FLOWS; i++) {
        if (self->flows[i].state != CACHE_ATTACHED) {
            return 0;
        }
    }
    return finds_nothing(self) && !cache_server_is_busy(self);
}
