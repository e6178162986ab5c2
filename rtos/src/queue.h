/*
 * The descriptor queue (spec/descriptor.md), one half at a time: struct hythe_inbox takes, struct hythe_outbox pushes.
 *
 * Our own counter is kept privately and only written to shared memory, never read back; the other side's is read once
 * per call and refused if it is out of range. Neither half waits, or knows what a descriptor means.
 */
#ifndef HYTHE_QUEUE_H
#define HYTHE_QUEUE_H

#include "hythe_rt.h"

enum hythe_queue_result {
    HYTHE_QUEUE_OK = 0,
    /* Nothing to take, or no room to push. */
    HYTHE_QUEUE_NOT_NOW = 1,
    /* The other side's counter cannot be true. */
    HYTHE_QUEUE_BROKEN = 2
};

/* Copies the oldest descriptor out and leaves it in the queue. */
int hythe_inbox_peek(const struct hythe_inbox *inbox, const struct hythe_port *port, uint32_t words[4]);

/* Removes what hythe_inbox_peek() returned. */
void hythe_inbox_advance(struct hythe_inbox *inbox, const struct hythe_port *port);

/* Is there room for one descriptor? */
int hythe_outbox_room(struct hythe_outbox *outbox, const struct hythe_port *port);

/* Pushes; call only after hythe_outbox_room() said HYTHE_QUEUE_OK. */
void hythe_outbox_push(struct hythe_outbox *outbox, const struct hythe_port *port, const uint32_t words[4]);

#endif
