/*
 * The Linux side of a link over the model of cache_model.h, and what is true about slots and flows,
 * which neither side of the link shares with the other. Called by cache_life.c.
 *
 * Follows spec/link.md, with its orderings and its cache maintenance. One processor stands for the
 * agent and for all participants. It checks that the core returns what it was given, and that a
 * message has the bytes that the core wrote.
 */
#ifndef CACHE_LINUX_H
#define CACHE_LINUX_H

#include "linux_side.h"

enum {
    CACHE_IN = 0,
    CACHE_OUT = 1,
    /* Requests to and from the core, and events to and from it. */
    CACHE_ASK = 2,
    CACHE_QUERY = 3,
    CACHE_RISE = 4,
    CACHE_TELL = 5,
    CACHE_ENDPOINTS = 6,
    /* Those before carry buffers. */
    CACHE_QUEUES = CACHE_RISE,
    /* Of each flow: one in the low word, one in the high. */
    CACHE_EVENTS = 2,
    CACHE_PORTS = 3,
    CACHE_FLOWS = CACHE_ENDPOINTS * CACHE_PORTS,
    CACHE_CAPACITY = 4,
    CACHE_WINDOW = 2,
    CACHE_SLOTS = 16,
    CACHE_SLOT_BYTES = 512,
    /* Not 0, so that a word that was not read is seen. */
    CACHE_FIRST_SLOT = 5,
    CACHE_REGION_OFFSET = 64,
    CACHE_LINE_BYTES = 64,
    CACHE_PAYLOAD_WORDS = (CACHE_SLOT_BYTES - 256) / 4
};

enum cache_flow_state {
    CACHE_DETACHED,
    CACHE_ATTACHING,
    CACHE_ATTACHED,
    CACHE_ENDING
};

struct cache_flow {
    /* As linux_side.h names it. */
    uint32_t name;
    enum cache_flow_state state;
    uint32_t session;
    uint32_t tail;
    uint32_t head;
    /*
     * Slots given over it that have neither come back nor been published or credited. Of
     * CACHE_QUERY those that have not come back unused.
     */
    uint32_t out;
    /* Linux's own words. */
    uint32_t raised[CACHE_EVENTS];
    uint32_t seen[CACHE_EVENTS];
    /* What was announced in this session, and what the reader found when it last looked. */
    uint32_t announced[CACHE_EVENTS];
    uint32_t looked[CACHE_EVENTS];
    /* How often Linux raised an event that was not pending, and how often the core took it. */
    uint32_t flips[CACHE_EVENTS];
    uint32_t takes[CACHE_EVENTS];
};

struct cache_slot {
    /* References that the core has; 0: it is Linux's. */
    uint32_t references;
    uint32_t generation;
    uint32_t flow;
    int counted;
    /* Which pattern it has, and how many words of it. */
    uint32_t pattern;
    uint32_t words;
    /* Of a request: what its header says. */
    uint32_t kind;
    uint32_t number;
    /* It has a request of the core that Linux has not answered: its tag. */
    int is_asked;
    uint32_t tag[2];
    /* Where the payload begins. That of a request may begin in the line of its header. */
    uint32_t offset;
};

struct cache_linux {
    struct linux_side side;
    int is_running;
    uint8_t *region;
    struct cache_flow flows[CACHE_FLOWS];
    struct cache_slot slots[CACHE_SLOTS];
    uint32_t patterns;
    uint32_t announcements;
    /* The core's session, as Linux met it; 0: not yet. */
    uint32_t core_session;
    /*
     * How many steps of 64 end the agent. 0: core and agent live as long as the test, so that
     * nothing that is missed is mended by a new one.
     */
    uint32_t agents_end;
    /* Nobody leaves any more, so that all that is under way arrives. */
    int is_closing;
    /* Linux does nothing by chance any more. */
    int is_still;
    /* The reader sleeps until it is rung; others may still send. */
    int is_asleep;
    int is_rung;
    /* Linux has rung the core. */
    int core_is_rung;
    /* For the sum that the test prints. */
    uint32_t sent;
    uint32_t received;
    uint32_t replies;
    uint32_t answers;
    uint32_t events;
};

void cache_linux_begin(struct cache_linux *linux_cpu, uint8_t *link, uint8_t *region);

/* Something that Linux does, by chance. */
void cache_linux_step(struct cache_linux *linux_cpu);

/* A port leaves; the agent does. */
void cache_linux_leave(struct cache_linux *linux_cpu, uint32_t flow);
void cache_linux_end_agent(struct cache_linux *linux_cpu);

/* 1: all ports are attached, and Linux has taken all there is. */
int cache_linux_is_done(struct cache_linux *linux_cpu);

/* The word that event `event` of a flow announces: of CACHE_TELL one for all of its flows. */
volatile uint32_t *cache_announced(const struct cache_linux *linux_cpu, uint32_t flow,
                                   uint32_t event);

/* How many references a buffer has that this flow brings. */
uint32_t cache_references(uint32_t flow);

/* The bit of this event in its word. */
uint32_t cache_event_bit(uint32_t flow, uint32_t event);

/* 1: the reader of an event flow that both sides have has not taken all there is. */
int cache_is_pending(const struct cache_linux *linux_cpu, uint32_t flow);

/* The core has the event flow as well: what was raised is pending, or was looked at. */
void cache_check_events(const struct cache_linux *linux_cpu, uint32_t flow);

/* ---- cache_server.c: the servers that the core asks ---- */

/* Gives an empty slot, or answers a request. */
void cache_server_step(struct cache_linux *linux_cpu, uint32_t flow);

/* What came over a flow of CACHE_QUERY, and is not unused. */
void cache_server_take(struct cache_linux *linux_cpu, uint32_t slot, const uint32_t words[8]);

/* 1: a request was not answered. */
int cache_server_is_busy(const struct cache_linux *linux_cpu);

/* ---- What both files of the Linux side use ---- */

volatile uint32_t *cache_word_at(uint8_t *bytes, uint32_t index);
uint8_t *cache_slot_bytes(const struct cache_linux *linux_cpu, uint32_t slot);
/* A message that the core wrote has the words of its pattern. */
void cache_check_payload(struct cache_linux *linux_cpu, uint32_t slot, uint32_t length);
/* Writes words of a new pattern. */
void cache_write_payload(struct cache_linux *linux_cpu, uint32_t slot);
/* How many entries the core has not passed. */
uint32_t cache_untaken(const struct cache_linux *linux_cpu, uint32_t flow);
void cache_linux_push(struct cache_linux *linux_cpu, uint32_t flow, uint32_t slot, uint32_t length,
                      const uint32_t tag[2]);

/* The core rang. */
void cache_linux_ring(struct cache_linux *linux_cpu);

/* Word `index` of pattern `pattern`. Word 0 is the pattern itself. */
uint32_t cache_pattern(uint32_t pattern, uint32_t index);

#endif
