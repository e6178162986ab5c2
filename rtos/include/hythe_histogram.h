/*
 * Latencies as a histogram in memory of fixed size, and the record in which they leave the core
 * (spec/histogram.md).
 *
 * The caller owns the memory of the counters. Adding is a handful of instructions; it never
 * allocates, blocks or loses a sample. One task, or one interrupt, at a time.
 */
#ifndef HYTHE_HISTOGRAM_H
#define HYTHE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HYTHE_HISTOGRAM_HEADER_BYTES = 64,
    HYTHE_HISTOGRAM_PAIR_BYTES = 8,
    HYTHE_HISTOGRAM_NAME_MAX = 28
};

/*
 * Counters that a histogram of these two parameters needs: 3328 for 7 and 32, an error of at most
 * 0.8 %.
 */
#define HYTHE_HISTOGRAM_BUCKETS(precision_bits, value_bits)                                        \
    ((size_t)((value_bits) - (precision_bits) + 1) << (precision_bits))

struct hythe_histogram {
    uint32_t *counts;
    uint32_t buckets;
    uint8_t precision_bits;
    uint8_t value_bits;
    uint32_t count;
    uint32_t overflow;
    uint32_t min;
    uint32_t max;
};

/*
 * Begins with no samples; also begins anew. `counts` has HYTHE_HISTOGRAM_BUCKETS() words. 0: the
 * parameters are outside of the limits of the page (1 <= precision_bits <= 12, precision_bits <
 * value_bits <= 32), nothing was written.
 */
int hythe_histogram_start(struct hythe_histogram *histogram, uint32_t *counts,
                          unsigned precision_bits, unsigned value_bits);

/* Adds a sample, in ticks. At most 2^32 - 1 samples. */
void hythe_histogram_add(struct hythe_histogram *histogram, uint32_t ticks);

/* The bucket that a value is counted in. */
uint32_t hythe_histogram_bucket(const struct hythe_histogram *histogram, uint32_t ticks);

/*
 * Writes the record: lower-case `name` of 1 to 28 characters, ticks of `tick_hz` a second. Returns
 * its bytes; 0: it does not fit into `room`, or the name is too long.
 */
size_t hythe_histogram_write(const struct hythe_histogram *histogram, const char *name,
                             uint32_t tick_hz, uint8_t *record, size_t room);

/* CRC-32C, for texts that travel beside the records. */
uint32_t hythe_histogram_crc32c(const uint8_t *bytes, size_t count);

#endif
