/*
 * The two queues of a flow (spec/descriptor.md, spec/link.md): the inbox takes, the outbox pushes.
 *
 * Our own counter is kept privately and only written to shared memory, never read back; the other
 * side's is read once per call and refused if it is out of range. Neither half waits, or knows what
 * an entry means.
 */
#ifndef HYTHE_QUEUE_H
#define HYTHE_QUEUE_H

#include "descriptor.h"
#include "hythe_rt.h"

enum hythe_queue_result {
    HYTHE_QUEUE_OK = 0,
    /* Nothing to take, or no free capacity. */
    HYTHE_QUEUE_NOT_NOW = 1,
    /* The other side's counter cannot be true. */
    HYTHE_QUEUE_BROKEN = 2
};

/* A flow and where its words and entries are: computed when it is needed, never kept. */
struct hythe_flow_view {
    struct hythe_flow *flow;
    const struct hythe_port *port;
    const volatile uint8_t *linux_line;
    volatile uint8_t *core_line;
    const volatile uint8_t *linux_entries;
    volatile uint8_t *core_entries;
    uint32_t capacity;
};

/* An entry to push: the words of a buffer as it came, but for two. */
struct hythe_outgoing {
    const uint32_t *words;
    uint32_t length;
    uint32_t references;
};

/* Copies the entry behind the oldest `ahead` ones out and leaves it in the queue. */
int hythe_inbox_peek(const struct hythe_flow_view *view, uint32_t ahead,
                     uint32_t words[HYTHE_WORDS]);

/* Removes the oldest entry, which hythe_inbox_peek() returned. */
void hythe_inbox_advance(const struct hythe_flow_view *view);

/* Do fewer than `most` entries wait for Linux? Clears `late` if Linux has taken one meanwhile. */
int hythe_outbox_free(const struct hythe_flow_view *view, uint32_t most);

/* Pushes; call only after hythe_outbox_free() said HYTHE_QUEUE_OK. */
void hythe_outbox_push(const struct hythe_flow_view *view, const struct hythe_outgoing *outgoing);

#endif
