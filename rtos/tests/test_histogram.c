/* Histograms against the golden records of histogram.txt, and against sorting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hythe_histogram.h"
#include "test.h"
#include "vectors.h"

enum {
    BUCKETS_MAX = 1 << 16,
    RECORD_MAX = 1024
};

static struct vectors vectors;
static uint32_t counts[BUCKETS_MAX];
static struct hythe_histogram histogram;

static void start(const char *group)
{
    unsigned precision_bits = vectors_number(&vectors, group, "precision_bits");
    unsigned value_bits = vectors_number(&vectors, group, "value_bits");

    CHECK(HYTHE_HISTOGRAM_BUCKETS(precision_bits, value_bits) <= BUCKETS_MAX);
    CHECK(hythe_histogram_start(&histogram, counts, precision_bits, value_bits));
}

static void check_buckets(const char *group)
{
    char key[VECTOR_TEXT_MAX];
    unsigned i;

    start(group);
    CHECK_EQUAL(histogram.buckets, vectors_number(&vectors, group, "buckets"));
    for (i = 0;; i++) {
        snprintf(key, sizeof key, "value.%u", i);
        if (vectors_text(&vectors, group, key) == NULL) {
            break;
        }
        uint32_t value = vectors_number(&vectors, group, key);
        snprintf(key, sizeof key, "index.%u", i);
        CHECK_EQUAL(hythe_histogram_bucket(&histogram, value),
                    vectors_number(&vectors, group, key));
    }
    CHECK(i > 0);
}

static void check_record(const char *group)
{
    const char *samples = vectors_text(&vectors, group, "samples");
    uint8_t expected[RECORD_MAX];
    uint8_t record[RECORD_MAX];
    size_t bytes = vectors_bytes(vectors_text(&vectors, group, "hex"), expected, sizeof expected);
    const char *name = vectors_text(&vectors, group, "name");
    uint32_t tick_hz = vectors_number(&vectors, group, "tick_hz");
    char *end;

    start(group);
    while (samples != NULL) {
        unsigned long sample = strtoul(samples, &end, 10);
        if (end == samples) {
            break;
        }
        hythe_histogram_add(&histogram, (uint32_t)sample);
        samples = end;
    }
    CHECK_EQUAL(histogram.count, vectors_number(&vectors, group, "count"));
    CHECK_EQUAL(histogram.overflow, vectors_number(&vectors, group, "overflow"));
    CHECK_EQUAL(histogram.min, vectors_number(&vectors, group, "min"));
    CHECK_EQUAL(histogram.max, vectors_number(&vectors, group, "max"));
    CHECK_EQUAL(hythe_histogram_write(&histogram, name, tick_hz, record, sizeof record), bytes);
    CHECK(memcmp(record, expected, bytes) == 0);
    CHECK_EQUAL(hythe_histogram_write(&histogram, name, tick_hz, record, bytes), bytes);
    CHECK_EQUAL(hythe_histogram_write(&histogram, name, tick_hz, record, bytes - 1), 0);
}

static void buckets_and_records_are_those_of_the_page(void)
{
    char group[VECTOR_TEXT_MAX] = "";
    unsigned groups = 0;
    size_t i;

    CHECK(vectors_read(&vectors, "histogram.txt"));
    for (i = 0; i < vectors.count; i++) {
        if (strcmp(vectors.line[i].group, group) == 0) {
            continue;
        }
        strcpy(group, vectors.line[i].group);
        if (strncmp(group, "buckets.", 8) == 0) {
            check_buckets(group);
            groups++;
        } else if (strncmp(group, "histogram.", 10) == 0) {
            check_record(group);
            groups++;
        }
    }
    CHECK(groups >= 7);
}

static void parameters_have_limits(void)
{
    static const unsigned refused[][2] = {{0, 8}, {13, 32}, {7, 7}, {7, 33}, {1, 1}};
    size_t i;

    for (i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        CHECK(!hythe_histogram_start(&histogram, counts, refused[i][0], refused[i][1]));
    }
}

static void names_have_limits(void)
{
    uint8_t record[HYTHE_HISTOGRAM_HEADER_BYTES];

    CHECK(hythe_histogram_start(&histogram, counts, 7, 32));
    CHECK_EQUAL(hythe_histogram_write(&histogram, "", 1, record, sizeof record), 0);
    CHECK_EQUAL(
        hythe_histogram_write(&histogram, "abcdefghijklmnopqrstuvwxyz_1", 1, record, sizeof record),
        sizeof record);
    CHECK_EQUAL(hythe_histogram_write(&histogram, "abcdefghijklmnopqrstuvwxyz_12", 1, record,
                                      sizeof record),
                0);
}

/* Every bucket's own limits lead back to it, and to its neighbours one step beyond. */
static void buckets_follow_each_other(void)
{
    uint32_t before = 0;
    uint32_t value;

    CHECK(hythe_histogram_start(&histogram, counts, 3, 20));
    for (value = 1; value < 1u << 20; value++) {
        uint32_t bucket = hythe_histogram_bucket(&histogram, value);
        CHECK(bucket == before || bucket == before + 1);
        before = bucket;
    }
    CHECK_EQUAL(before, histogram.buckets - 1);
}

void test_histogram(void)
{
    RUN(buckets_and_records_are_those_of_the_page);
    RUN(parameters_have_limits);
    RUN(names_have_limits);
    RUN(buckets_follow_each_other);
}
