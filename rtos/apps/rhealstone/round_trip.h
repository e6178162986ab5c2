/*
 * The round trip of a Hythe channel: a question to Linux, and its answer. The only measure that
 * takes another party than this core.
 */
#ifndef ROUND_TRIP_H
#define ROUND_TRIP_H

#include "hythe_rt.h"

#include "sample.h"

enum {
    /*
     * Its number, and how many answers are still wanted, this one among them: words, little endian.
     */
    QUESTION_BYTES = 8
};

/*
 * Takes the samples that the sampler still wants: each from before the question is published until
 * its answer is taken. Questions that get none are counted as discarded. 0: so many in a row got
 * none that Linux has left.
 */
int measure_round_trip(struct sampler *sampler, struct hythe_endpoint *question,
                       struct hythe_endpoint *answer);

#endif
