/*
 * Histograms of fixed size and their records (spec/histogram.md). Pure: memory of the caller, no
 * clock, no lock.
 */
#include "hythe_histogram.h"

enum {
    MAGIC = 0x47485948,
    VERSION = 1,
    PRECISION_BITS_MAX = 12,
    VALUE_BITS_MAX = 32,
    NAME_AT = 32,
    CHECKSUM_AT = 60
};

/* Castagnoli's polynomial, bits reversed. */
#define CRC32C_POLYNOMIAL 0x82F63B78u

int hythe_histogram_start(struct hythe_histogram *histogram, uint32_t *counts,
                          unsigned precision_bits, unsigned value_bits)
{
    uint32_t i;

    if (precision_bits < 1 || precision_bits > PRECISION_BITS_MAX || value_bits <= precision_bits ||
        value_bits > VALUE_BITS_MAX) {
        return 0;
    }
    histogram->counts = counts;
    histogram->buckets = (uint32_t)HYTHE_HISTOGRAM_BUCKETS(precision_bits, value_bits);
    histogram->precision_bits = (uint8_t)precision_bits;
    histogram->value_bits = (uint8_t)value_bits;
    histogram->count = 0;
    histogram->overflow = 0;
    histogram->min = 0;
    histogram->max = 0;
    for (i = 0; i < histogram->buckets; i++) {
        counts[i] = 0;
    }
    return 1;
}

/* Of a value that is not 0; five steps. */
static unsigned highest_bit(uint32_t value)
{
    unsigned bit = 0;
    unsigned step;

    for (step = 16; step != 0; step /= 2) {
        if (value >> (bit + step) != 0) {
            bit += step;
        }
    }
    return bit;
}

static int is_overflow(const struct hythe_histogram *histogram, uint32_t ticks)
{
    return histogram->value_bits < VALUE_BITS_MAX && ticks >> histogram->value_bits != 0;
}

uint32_t hythe_histogram_bucket(const struct hythe_histogram *histogram, uint32_t ticks)
{
    unsigned precision_bits = histogram->precision_bits;
    unsigned highest;

    if (is_overflow(histogram, ticks)) {
        return histogram->buckets - 1;
    }
    if (ticks >> precision_bits == 0) {
        return ticks;
    }
    highest = highest_bit(ticks);
    return ((highest - precision_bits) << precision_bits) + (ticks >> (highest - precision_bits));
}

void hythe_histogram_add(struct hythe_histogram *histogram, uint32_t ticks)
{
    histogram->counts[hythe_histogram_bucket(histogram, ticks)]++;
    histogram->overflow += (uint32_t)is_overflow(histogram, ticks);
    if (histogram->count == 0 || ticks < histogram->min) {
        histogram->min = ticks;
    }
    if (ticks > histogram->max) {
        histogram->max = ticks;
    }
    histogram->count++;
}

/* ---- The record ---- */

static void put(uint8_t *at, uint32_t word)
{
    at[0] = (uint8_t)word;
    at[1] = (uint8_t)(word >> 8);
    at[2] = (uint8_t)(word >> 16);
    at[3] = (uint8_t)(word >> 24);
}

/* Bit by bit: a record is written once, and a table would take a kilobyte. */
static uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t count)
{
    size_t i;
    unsigned bit;

    for (i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? CRC32C_POLYNOMIAL : 0);
        }
    }
    return crc;
}

uint32_t hythe_histogram_crc32c(const uint8_t *bytes, size_t count)
{
    return ~crc32c(UINT32_MAX, bytes, count);
}

/* Returns the characters, or 0: too many. */
static size_t put_name(uint8_t *at, const char *name)
{
    size_t length = 0;
    size_t i;

    while (name[length] != '\0') {
        if (length == HYTHE_HISTOGRAM_NAME_MAX) {
            return 0;
        }
        at[length] = (uint8_t)name[length];
        length++;
    }
    for (i = length; i < HYTHE_HISTOGRAM_NAME_MAX; i++) {
        at[i] = 0;
    }
    return length;
}

size_t hythe_histogram_write(const struct hythe_histogram *histogram, const char *name,
                             uint32_t tick_hz, uint8_t *record, size_t room)
{
    size_t end = HYTHE_HISTOGRAM_HEADER_BYTES;
    uint32_t pairs = 0;
    uint32_t checksum;
    uint32_t i;

    if (room < end || put_name(record + NAME_AT, name) == 0) {
        return 0;
    }
    for (i = 0; i < histogram->buckets; i++) {
        if (histogram->counts[i] == 0) {
            continue;
        }
        if (room - end < HYTHE_HISTOGRAM_PAIR_BYTES) {
            return 0;
        }
        put(record + end, i);
        put(record + end + 4, histogram->counts[i]);
        end += HYTHE_HISTOGRAM_PAIR_BYTES;
        pairs++;
    }
    put(record, MAGIC);
    put(record + 4, VERSION | (uint32_t)histogram->precision_bits << 16 |
                        (uint32_t)histogram->value_bits << 24);
    put(record + 8, tick_hz);
    put(record + 12, pairs);
    put(record + 16, histogram->count);
    put(record + 20, histogram->overflow);
    put(record + 24, histogram->min);
    put(record + 28, histogram->max);
    checksum = crc32c(UINT32_MAX, record, CHECKSUM_AT);
    checksum =
        crc32c(checksum, record + HYTHE_HISTOGRAM_HEADER_BYTES, end - HYTHE_HISTOGRAM_HEADER_BYTES);
    put(record + CHECKSUM_AT, ~checksum);
    return end;
}
