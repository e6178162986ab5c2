/* The queue alone: order, limits, wrap-around of counters, impossible counters. */
#include <string.h>

#include "queue.h"
#include "test.h"

enum {
    CAPACITY = 8
};

/*
 * A queue with both ends in one hand: the entries and words that one side writes are those that the
 * other reads.
 */
struct queue {
    uint32_t linux_line[16];
    uint32_t core_line[16];
    uint32_t entries[CAPACITY * HYTHE_WORDS];
    struct hythe_flow flow;
    struct hythe_port port;
    struct hythe_flow_view view;
};

static uint32_t *tail_word(struct queue *queue)
{
    return &queue->linux_line[2];
}

static uint32_t *head_word(struct queue *queue)
{
    return &queue->linux_line[3];
}

static void make(struct queue *queue, uint32_t start)
{
    memset(queue, 0, sizeof *queue);
    *tail_word(queue) = start;
    *head_word(queue) = start;
    queue->flow.inbox_head = start;
    queue->flow.outbox_tail = start;
    queue->flow.head_seen = start;
    queue->view.flow = &queue->flow;
    queue->view.port = &queue->port;
    queue->view.linux_line = (volatile uint8_t *)queue->linux_line;
    queue->view.core_line = (volatile uint8_t *)queue->core_line;
    queue->view.linux_entries = (volatile uint8_t *)queue->entries;
    queue->view.core_entries = (volatile uint8_t *)queue->entries;
    queue->view.capacity = CAPACITY;
}

static int push(struct queue *queue, uint32_t value)
{
    uint32_t words[HYTHE_WORDS] = {value, 0, 0, value + 3, 0, 0, 0, value + 7};
    int result = hythe_outbox_free(&queue->view, CAPACITY);

    if (result == HYTHE_QUEUE_OK) {
        struct hythe_outgoing outgoing = {words, words[3], words[5]};
        hythe_outbox_push(&queue->view, &outgoing);
        /* The inbox reads Linux's line. */
        *tail_word(queue) = queue->core_line[2];
    }
    return result;
}

static int take(struct queue *queue, uint32_t expected)
{
    uint32_t words[HYTHE_WORDS] = {0};
    int result = hythe_inbox_peek(&queue->view, 0, words);

    if (result == HYTHE_QUEUE_OK) {
        CHECK_EQUAL(words[0], expected);
        CHECK_EQUAL(words[3], expected + 3);
        CHECK_EQUAL(words[7], expected + 7);
        hythe_inbox_advance(&queue->view);
        *head_word(queue) = queue->core_line[3];
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
    CHECK_EQUAL(*head_word(&queue), 0xFFFFFFF0u + 64);
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
    uint32_t words[HYTHE_WORDS];

    make(&queue, 0xFFFFFFFEu);
    *tail_word(&queue) += CAPACITY;
    CHECK_EQUAL(hythe_inbox_peek(&queue.view, 0, words), HYTHE_QUEUE_OK);
    *tail_word(&queue) += 1;
    CHECK_EQUAL(hythe_inbox_peek(&queue.view, 0, words), HYTHE_QUEUE_BROKEN);
    *tail_word(&queue) = queue.flow.inbox_head - 1;
    CHECK_EQUAL(hythe_inbox_peek(&queue.view, 0, words), HYTHE_QUEUE_BROKEN);
}

static void an_impossible_head_is_broken(void)
{
    struct queue queue;

    make(&queue, 0xFFFFFFFEu);
    CHECK_EQUAL(push(&queue, 1), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, 2), HYTHE_QUEUE_OK);
    CHECK_EQUAL(take(&queue, 1), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, 3), HYTHE_QUEUE_OK);
    *head_word(&queue) = *tail_word(&queue) + 1;
    CHECK_EQUAL(push(&queue, 4), HYTHE_QUEUE_BROKEN);
    *head_word(&queue) = queue.flow.inbox_head - 1;
    CHECK_EQUAL(push(&queue, 4), HYTHE_QUEUE_BROKEN);
    *head_word(&queue) = queue.flow.inbox_head;
    CHECK_EQUAL(push(&queue, 4), HYTHE_QUEUE_OK);
}

static void a_head_of_an_earlier_life_is_ignored_until_it_makes_sense(void)
{
    struct queue queue;
    uint32_t i;

    make(&queue, 1000);
    *head_word(&queue) = 3;
    for (i = 0; i < CAPACITY; i++) {
        CHECK_EQUAL(push(&queue, i), HYTHE_QUEUE_OK);
    }
    CHECK_EQUAL(push(&queue, 99), HYTHE_QUEUE_NOT_NOW);
    *head_word(&queue) = 1000 + 2;
    CHECK_EQUAL(push(&queue, 8), HYTHE_QUEUE_OK);
    CHECK_EQUAL(push(&queue, 9), HYTHE_QUEUE_OK);
    *head_word(&queue) = 3;
    CHECK_EQUAL(push(&queue, 10), HYTHE_QUEUE_BROKEN);
}

static void a_limit_below_the_capacity_holds_and_a_moved_head_ends_lateness(void)
{
    struct queue queue;

    make(&queue, 5);
    CHECK_EQUAL(push(&queue, 0), HYTHE_QUEUE_OK);
    CHECK_EQUAL(hythe_outbox_free(&queue.view, 1), HYTHE_QUEUE_NOT_NOW);
    CHECK_EQUAL(hythe_outbox_free(&queue.view, 2), HYTHE_QUEUE_OK);
    queue.flow.late = 1;
    CHECK_EQUAL(hythe_outbox_free(&queue.view, 1), HYTHE_QUEUE_NOT_NOW);
    CHECK_EQUAL(queue.flow.late, 1);
    CHECK_EQUAL(take(&queue, 0), HYTHE_QUEUE_OK);
    CHECK_EQUAL(hythe_outbox_free(&queue.view, 1), HYTHE_QUEUE_OK);
    CHECK_EQUAL(queue.flow.late, 0);
}

void test_queue(void)
{
    RUN(order_holds_while_both_counters_pass_zero);
    RUN(it_fills_to_capacity_and_no_further);
    RUN(an_impossible_tail_is_broken);
    RUN(an_impossible_head_is_broken);
    RUN(a_limit_below_the_capacity_holds_and_a_moved_head_ends_lateness);
    RUN(a_head_of_an_earlier_life_is_ignored_until_it_makes_sense);
}
