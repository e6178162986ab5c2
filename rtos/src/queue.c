/* Both halves of the queue. Called by endpoint.c under the lock. Never waits, never looks at what a descriptor means. */
#include "queue.h"

#include "descriptor.h"
#include "shared.h"

static uint32_t entry_offset(uint32_t counter, uint32_t capacity)
{
    return (counter & (capacity - 1)) * HYTHE_ENTRY_BYTES;
}

int hythe_inbox_peek(const struct hythe_inbox *inbox, const struct hythe_port *port, uint32_t words[4])
{
    uint32_t tail = hythe_read(port, inbox->tail_word);
    uint32_t filled = tail - inbox->head;
    const volatile uint32_t *entry;
    uint32_t i;

    if (filled == 0) {
        return HYTHE_QUEUE_NOT_NOW;
    }
    if (filled > inbox->capacity) {
        return HYTHE_QUEUE_BROKEN;
    }
    entry = hythe_const_word(inbox->entries, entry_offset(inbox->head, inbox->capacity));
    hythe_invalidate(port, entry, HYTHE_ENTRY_BYTES);
    for (i = 0; i < HYTHE_WORDS; i++) {
        words[i] = hythe_load_relaxed(&entry[i]);
    }
    return HYTHE_QUEUE_OK;
}

void hythe_inbox_advance(struct hythe_inbox *inbox, const struct hythe_port *port)
{
    inbox->head++;
    hythe_write(port, inbox->head_word, inbox->head);
}

int hythe_outbox_room(struct hythe_outbox *outbox, const struct hythe_port *port)
{
    uint32_t head = hythe_read(port, outbox->head_word);

    /* How far Linux got since we last looked must not exceed what we had pushed by now. */
    if (head - outbox->head_seen <= outbox->tail - outbox->head_seen) {
        outbox->head_seen = head;
        outbox->settled = 1;
    } else if (outbox->settled) {
        return HYTHE_QUEUE_BROKEN;
    }
    return outbox->tail - outbox->head_seen < outbox->capacity ? HYTHE_QUEUE_OK : HYTHE_QUEUE_NOT_NOW;
}

void hythe_outbox_push(struct hythe_outbox *outbox, const struct hythe_port *port, const uint32_t words[4])
{
    volatile uint32_t *entry = hythe_word(outbox->entries, entry_offset(outbox->tail, outbox->capacity));
    uint32_t i;

    for (i = 0; i < HYTHE_WORDS; i++) {
        hythe_store_relaxed(&entry[i], words[i]);
    }
    hythe_clean(port, entry, HYTHE_ENTRY_BYTES);
    outbox->tail++;
    hythe_write(port, outbox->tail_word, outbox->tail);
}
