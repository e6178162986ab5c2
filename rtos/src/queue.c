/*
 * Both queues of a flow. Called by take.c and give.c under the lock. Never waits, never looks at
 * what an entry means.
 */
#include "queue.h"

#include "shared.h"

static uint32_t entry_offset(uint32_t counter, uint32_t capacity)
{
    return (counter & (capacity - 1)) * HYTHE_ENTRY_BYTES;
}

int hythe_inbox_peek(const struct hythe_flow_view *view, uint32_t ahead,
                     uint32_t words[HYTHE_WORDS])
{
    uint32_t head = view->flow->inbox_head;
    uint32_t tail = hythe_read(view->port, hythe_const_word(view->linux_line, HYTHE_FLOW_AT_TAIL));
    const volatile uint32_t *entry;
    uint32_t i;

    if (tail - head > view->capacity) {
        return HYTHE_QUEUE_BROKEN;
    }
    if (tail - head <= ahead) {
        return HYTHE_QUEUE_NOT_NOW;
    }
    entry = hythe_const_word(view->linux_entries, entry_offset(head + ahead, view->capacity));
    hythe_invalidate(view->port, entry, HYTHE_ENTRY_BYTES);
    for (i = 0; i < HYTHE_WORDS; i++) {
        words[i] = hythe_load_relaxed(&entry[i]);
    }
    /* The caller looks at the session next: what it finds must not be older than these words. */
    hythe_fence_acquire();
    return HYTHE_QUEUE_OK;
}

void hythe_inbox_advance(const struct hythe_flow_view *view)
{
    view->flow->inbox_head++;
    hythe_write(view->port, hythe_word(view->core_line, HYTHE_FLOW_AT_HEAD),
                view->flow->inbox_head);
}

int hythe_outbox_free(const struct hythe_flow_view *view, uint32_t most)
{
    struct hythe_flow *flow = view->flow;
    uint32_t head = hythe_read(view->port, hythe_const_word(view->linux_line, HYTHE_FLOW_AT_HEAD));

    /* How far Linux got since we last looked must not exceed what we had pushed by now. */
    if (head - flow->head_seen <= flow->outbox_tail - flow->head_seen) {
        if (head != flow->head_seen) {
            flow->late = 0;
        }
        flow->head_seen = head;
        flow->settled = 1;
    } else if (flow->settled) {
        return HYTHE_QUEUE_BROKEN;
    }
    return flow->outbox_tail - flow->head_seen < most ? HYTHE_QUEUE_OK : HYTHE_QUEUE_NOT_NOW;
}

void hythe_outbox_push(const struct hythe_flow_view *view, const struct hythe_outgoing *outgoing)
{
    struct hythe_flow *flow = view->flow;
    volatile uint32_t *entry =
        hythe_word(view->core_entries, entry_offset(flow->outbox_tail, view->capacity));
    const uint32_t *words = outgoing->words;

    hythe_store_relaxed(&entry[HYTHE_WORD_PLACE], words[HYTHE_WORD_PLACE]);
    hythe_store_relaxed(&entry[HYTHE_WORD_GENERATION], words[HYTHE_WORD_GENERATION]);
    hythe_store_relaxed(&entry[HYTHE_WORD_OFFSET], words[HYTHE_WORD_OFFSET]);
    hythe_store_relaxed(&entry[HYTHE_WORD_LENGTH], outgoing->length);
    hythe_store_relaxed(&entry[HYTHE_WORD_ACCOUNT], words[HYTHE_WORD_ACCOUNT]);
    hythe_store_relaxed(&entry[HYTHE_WORD_REFERENCES], outgoing->references);
    hythe_store_relaxed(&entry[HYTHE_WORD_TAG], words[HYTHE_WORD_TAG]);
    hythe_store_relaxed(&entry[HYTHE_WORD_TAG + 1], words[HYTHE_WORD_TAG + 1]);
    hythe_clean(view->port, entry, HYTHE_ENTRY_BYTES);
    flow->outbox_tail++;
    hythe_write(view->port, hythe_word(view->core_line, HYTHE_FLOW_AT_TAIL), flow->outbox_tail);
}
