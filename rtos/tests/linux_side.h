/*
 * The Linux side of a link, written for tests from spec/link.md and from nothing else: it shares no
 * code with the library.
 *
 * Deliberately naive: it trusts the core, keeps everything in plain structures and exposes every
 * word, so that tests can also lie through it. Works on any memory: malloc'd, or the mapped RAM of
 * a board.
 */
#ifndef LINUX_SIDE_H
#define LINUX_SIDE_H

#include <stddef.h>
#include <stdint.h>

#define LINUX_ENDPOINTS_MAX 16
#define LINUX_PORTS_MAX 8
#define LINUX_FLOWS_MAX (LINUX_ENDPOINTS_MAX * LINUX_PORTS_MAX)
/* Names a flow in the functions and arrays below; an endpoint's number alone is its port 0. */
#define LINUX_FLOW(endpoint, port) ((endpoint) + LINUX_ENDPOINTS_MAX * (port))
#define LINUX_CREDIT 0xFFFFFFFFu
#define LINUX_UNUSED 0xFFFFFFFEu

/* The 32 bytes of an entry. */
struct descriptor {
    uint32_t place;
    uint32_t generation;
    uint32_t offset;
    uint32_t length;
    uint32_t account;
    uint32_t references;
    uint32_t tag[2];
};

struct slot_class {
    uint32_t slot_bytes;
    uint32_t slot_count;
    uint32_t first_slot;
    uint32_t region_offset;
};

struct linux_side {
    uint8_t *link;
    uint32_t line_bytes;
    uint32_t section_bytes;
    uint32_t endpoints;
    uint32_t ports;
    uint32_t capacity;
    /* What linux_attach() writes. */
    uint32_t window;
    /* No flow asks for rings. */
    int polls;
    uint32_t region;
    uint32_t region_bytes;
    uint32_t classes;
    struct slot_class slot_class[4];
    uint32_t session;

    /* Per flow: our own counters, and the session we attached with. */
    uint32_t tail[LINUX_FLOWS_MAX];
    uint32_t head[LINUX_FLOWS_MAX];
    uint32_t attached[LINUX_FLOWS_MAX];
    /* The last session used, so that no number comes twice; and whether its echo was seen. */
    uint32_t last[LINUX_FLOWS_MAX];
    int met[LINUX_FLOWS_MAX];
};

/* A word of the Linux section, of the core section, and of the two lines of a flow. */
volatile uint32_t *linux_word(const struct linux_side *side, uint32_t offset);
volatile uint32_t *core_word(const struct linux_side *side, uint32_t offset);
volatile uint32_t *linux_flow(const struct linux_side *side, uint32_t flow, uint32_t offset);
volatile uint32_t *core_flow(const struct linux_side *side, uint32_t flow, uint32_t offset);
/* Entry `counter` of the queue Linux -> core, and core -> Linux. */
volatile uint32_t *linux_entry(const struct linux_side *side, uint32_t flow, uint32_t counter);
volatile uint32_t *core_entry(const struct linux_side *side, uint32_t flow, uint32_t counter);

/* Words with the orderings of the page. */
uint32_t load(const volatile uint32_t *word);
void store(volatile uint32_t *word, uint32_t value);

/* Adds a class behind the classes there are. */
void linux_add_class(struct linux_side *side, uint32_t slot_bytes, uint32_t slot_count);
/* Fills the section and writes a new agent session last. */
void linux_publish(struct linux_side *side);
/* Has the core answered this session, and how (0, 1 up, 2 refused)? */
uint32_t linux_state(const struct linux_side *side);

/* Writes window, start and a new session, and raises `changes`. */
void linux_attach(struct linux_side *side, uint32_t flow);
void linux_detach(struct linux_side *side, uint32_t flow);
/* Does Linux want rings, at the flows there are and at those to come? At first it does. */
void linux_poll(struct linux_side *side, int polls);
/* 1 once the core has echoed a session of ours; with the first 1 its start is taken over. */
int linux_attach_done(struct linux_side *side, uint32_t flow);

void linux_push(struct linux_side *side, uint32_t flow, struct descriptor descriptor);
/* 1 and the next descriptor of the core, or 0. */
int linux_take(struct linux_side *side, uint32_t flow, struct descriptor *descriptor);

/*
 * Events, of a flow whose endpoint is of that kind. The first returns those that were not pending,
 * whose bits were flipped; the second takes all that are pending.
 */
uint64_t linux_raise(struct linux_side *side, uint32_t flow, uint64_t events);
uint64_t linux_take_events(struct linux_side *side, uint32_t flow);

/* Names slot `index` of class `class_index`, with as many references as the link has ports. */
struct descriptor linux_slot(const struct linux_side *side, uint32_t class_index, uint32_t index,
                             uint32_t length);
/* Where a slot is in the region. */
uint32_t linux_slot_offset(const struct linux_side *side, uint32_t place);

#endif
