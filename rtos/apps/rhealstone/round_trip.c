/*
 * Asks and waits, both by the library's ordinary calls: what it does with the bell, any program's
 * message meets.
 */
#include "round_trip.h"

/* For a slot, and for an answer. */
#define WAIT_MS 1000u

enum {
    ASKED = 0,
    ANSWERED = 1,
    /* In a row. */
    UNANSWERED_MAX = 5,
    /*
     * What came too late for its own question may lie before the answer to this one: no more of it
     * than a queue holds.
     */
    ANSWERS_MAX = 64
};

static void put_word(uint8_t *at, uint32_t word)
{
    unsigned i;

    for (i = 0; i < 4; i++) {
        at[i] = (uint8_t)(word >> 8 * i);
    }
}

/* Linux may still write it: each byte is read once. */
static uint32_t word_at(const volatile uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int publish(struct sampler *sampler, struct hythe_endpoint *question, uint32_t number)
{
    struct hythe_buffer buffer;

    if (hythe_lease(question, &buffer, WAIT_MS) != HYTHE_OK) {
        return 0;
    }
    put_word(buffer.data, number);
    put_word(buffer.data + 4, sampler->left);
    sample_begin(sampler, ASKED);
    if (hythe_publish(&buffer, QUESTION_BYTES, WAIT_MS) == HYTHE_OK) {
        return 1;
    }
    (void)hythe_release(&buffer);
    return 0;
}

/* Takes what comes until it is the answer. */
static int take(struct sampler *sampler, struct hythe_endpoint *answer, uint32_t number)
{
    struct hythe_buffer buffer;
    unsigned i;

    for (i = 0; i < ANSWERS_MAX && hythe_receive(answer, &buffer, WAIT_MS) == HYTHE_OK; i++) {
        int is_answer = buffer.length == QUESTION_BYTES && word_at(buffer.data) == number;

        if (is_answer) {
            sample_end(sampler, ANSWERED);
        }
        (void)hythe_release(&buffer);
        if (is_answer) {
            return 1;
        }
    }
    return 0;
}

int measure_round_trip(struct sampler *sampler, struct hythe_endpoint *question,
                       struct hythe_endpoint *answer)
{
    uint32_t number = 0;
    unsigned unanswered = 0;

    while (sampler->left > 0 && unanswered < UNANSWERED_MAX) {
        number++;
        if (publish(sampler, question, number) && take(sampler, answer, number)) {
            unanswered = 0;
            continue;
        }
        sampler->by = NOBODY;
        sampler->discarded++;
        unanswered++;
    }
    return sampler->left == 0;
}
