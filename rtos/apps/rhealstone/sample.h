/*
 * One latency, sample by sample: begun by one party, ended by another. Parties are tasks or a
 * handler, numbered by the measure. Between a begin and its end lies what is measured, and one
 * reading of the clock.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdint.h>

#include "hythe_histogram.h"
#include "measure.h"

enum {
    /* An error of at most 1/128; values up to the clock's range. */
    SAMPLE_PRECISION_BITS = 7,
    SAMPLE_VALUE_BITS = 32,
    SAMPLE_BUCKETS = HYTHE_HISTOGRAM_BUCKETS(SAMPLE_PRECISION_BITS, SAMPLE_VALUE_BITS),
    NOBODY = -1,
    /* Of the pin: a timer is programmed between two of these. No letter, so it begins no sample. */
    PIN_PROGRAMMED = '+'
};

struct sampler {
    const char *name;
    /* Of the pin: `edge` begins, its lower case ends. */
    char edge;
    /* How many samples are still wanted. */
    volatile uint32_t left;
    volatile uint32_t began;
    /* Who began, and has not been answered. */
    volatile int by;
    uint32_t discarded;
    /*
     * Of a timer: ticks of the clock between two samples' instants. 0: the samples are of no timer.
     */
    uint32_t period;
    struct hythe_histogram histogram;
    uint32_t counts[SAMPLE_BUCKETS];
};

static inline void sample_begin(struct sampler *sampler, int party)
{
    measure_pin(sampler->edge);
    sampler->began = measure_clock();
    /* Last: a tick that comes before this lets nobody end what has not begun. */
    sampler->by = party;
}

static inline void sample_end(struct sampler *sampler, int party)
{
    /* Read first: a tick may let the other party begin anew while this one is still here. */
    int by = sampler->by;
    uint32_t began = sampler->began;
    uint32_t now = measure_clock();

    if (by == NOBODY || by == party) {
        sampler->discarded++;
        return;
    }
    measure_pin((char)(sampler->edge | 0x20));
    sampler->by = NOBODY;
    hythe_histogram_add(&sampler->histogram, now - began);
    sampler->left--;
}

#endif
