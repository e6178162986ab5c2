/* The queue alone: order, limits, wrap-around of counters, impossible counters. */
#include <string.h>

#include "queue.h"
#include "test.h"

enum {
    CAPACITY = 8
};

/* An outbox and an inbox over the same words: a queue with both ends in one hand. */
struct queue {
    uint32_t tail;
    uint32_t head;
    uint32_t entries[CAPACITY * 4];
    struct hythe_outbox outbox;
    struct hythe_inbox inbox;
    struct hythe_port port;
};

static void make(struct queue *queue, uint32_t start)
{
    memset(queue, 0, sizeof *queue);
    queue->tail = start;
    queue->head = start;
    queue->outbox.entries = (volatile uint8_t *)queue->entries;
    queue->outbox.tail_word = &queue->tail;
    queue->outbox.head_word = &queue->head;
    queue->outbox.capacity = CAPACITY;
    queue->outbox.tail = start;
    queue->outbox.head_seen = start;
    queue->inbox.entries = (volatile uint8_t *)queue->entries;
    queue->inbox.tail_word = &queue->tail;
    queue->inbox.head_word = &queue->head;
    queue->inbox.capacity = CAPACITY;
    queue->inbox.head = start;
}

static int push(struct queue *queue, uint32_t value)
{
    uint32_t words[4] = {value, value + 1, value + 2, value + 3};
    int result = hythe_outbox_room(&queue->outbox, &queue->port);

    if (result == HYTHE_QUEUE_OK) {
        hythe_outbox_push(&queue->outbox, &queue->port, words);
    }
    return result;
}

static int take(struct queue *queue, uint32_t expected)
{
    uint32_t words[4] = {0, 0, 0, 0};
    int result = hythe_inbox_peek(&queue->inbox, &queue->port, words);

    if (result == HYTHE_QUEUE_OK) {
        CHECK_EQUAL(words[0], expected);
        CHECK_EQUAL(words[3], expected + 3);
        hythe_inbox_advance(&queue->inbox, &queue->port);
    }
    return result;
}

static void order_holds_while_both_counters_pass_zero(void)
{
    struct queue queue;
    uint32_t pushed = 0;
    uint32_t taken = 0;

    make(&queue, 0xFFFFFFF0u);
    while (taken < 64) {
        /* Uneven bursts, so that every ring index sees both ends. */
        uint32_t burst = taken % 5 + 3;
        while (burst-- > 0 && push(&queue, pushed * 10) == HYTHE_QUEUE_OK) {
            pushed++;
        }
        CHECK_EQUAL(take(&queue, taken * 10), HYTHE_QUEUE_OK);
        taken++;
    }
    CHECK_EQUAL(queue.head, 0xFFFFFFF0u + 64);
}

static void it_fills_to_capacity_and_no_further(void)
{
    struct queue queue;
    uint32_t i;

    make(&queue, 0xFFFFFFFCu);
    CHECK_EQUAL(take(&queue, 0), HYTHE_QUEUE_NOT_NOW);
    for (i = 0; i < CAPACITY; i++) {
        CHECK_EQUAL(push(&queue, i), HYTHE_QUEUE_OK);
    }
    CHECK_EQUAL(push(&queue, 99), HYTHE_QUEUE_NOT_NOW);
    CHECK_EQUAL(take(&queue, 0), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, CAPACITY), HYTHE_QUEUE_OK);
    for (i = 1; i <= CAPACITY; i++) {
        CHECK_EQUAL(take(&queue, i), HYTHE_QUEUE_OK);
    }
    CHECK_EQUAL(take(&queue, 0), HYTHE_QUEUE_NOT_NOW);
}

static void an_impossible_tail_is_broken(void)
{
    struct queue queue;
    uint32_t words[4];

    make(&queue, 0xFFFFFFFEu);
    queue.tail += CAPACITY;
    CHECK_EQUAL(hythe_inbox_peek(&queue.inbox, &queue.port, words), HYTHE_QUEUE_OK);
    queue.tail += 1;
    CHECK_EQUAL(hythe_inbox_peek(&queue.inbox, &queue.port, words), HYTHE_QUEUE_BROKEN);
    queue.tail = queue.inbox.head - 1;
    CHECK_EQUAL(hythe_inbox_peek(&queue.inbox, &queue.port, words), HYTHE_QUEUE_BROKEN);
}

static void an_impossible_head_is_broken(void)
{
    struct queue queue;

    make(&queue, 0xFFFFFFFEu);
    CHECK_EQUAL(push(&queue, 1), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, 2), HYTHE_QUEUE_OK);
    CHECK_EQUAL(take(&queue, 1), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, 3), HYTHE_QUEUE_OK);
    queue.head = queue.tail + 1;
    CHECK_EQUAL(push(&queue, 4), HYTHE_QUEUE_BROKEN);
    queue.head = queue.inbox.head - 1;
    CHECK_EQUAL(push(&queue, 4), HYTHE_QUEUE_BROKEN);
    queue.head = queue.inbox.head;
    CHECK_EQUAL(push(&queue, 4), HYTHE_QUEUE_OK);
}

static void a_head_of_an_earlier_life_is_ignored_until_it_makes_sense(void)
{
    struct queue queue;
    uint32_t i;

    make(&queue, 1000);
    queue.head = 3;
    for (i = 0; i < CAPACITY; i++) {
        CHECK_EQUAL(push(&queue, i), HYTHE_QUEUE_OK);
    }
    CHECK_EQUAL(push(&queue, 99), HYTHE_QUEUE_NOT_NOW);
    queue.head = 1000 + 2;
    CHECK_EQUAL(push(&queue, 8), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, 9), HYTHE_QUEUE_OK);
    queue.head = 3;
    CHECK_EQUAL(push(&queue, 10), HYTHE_QUEUE_BROKEN);
}

void test_queue(void)
{
    RUN(order_holds_while_both_counters_pass_zero);
    RUN(it_fills_to_capacity_and_no_further);
    RUN(an_impossible_tail_is_broken);
    RUN(an_impossible_head_is_broken);
    RUN(a_head_of_an_earlier_life_is_ignored_until_it_makes_sense);
}
