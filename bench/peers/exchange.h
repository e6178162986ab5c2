/*
 * What the peers of `hythe bench ipc`, `host` and `pvm` have in common: messages of a content of
 * their own, there and back, and their times. As in bench/src/payload.rs and bench/src/ipc/end.rs.
 *
 * Included by one program each, in C or C++. A program defines there_and_back(), calls measure() or
 * measure_rate() on the side that measures, and prints nothing else on its standard output.
 */
#ifndef HYTHE_BENCH_EXCHANGE_H
#define HYTHE_BENCH_EXCHANGE_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WARM_UP_MIN = 16,
    WARM_UP_MAX = 1000,
    SAMPLES_MIN = 20
};

struct plan {
    size_t size;
    unsigned long count;
    double seconds;
};

/* Sends message `number` and receives it back. */
static void there_and_back(uint64_t number);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(EXIT_FAILURE);
}

/* Odd, and unlike that of the neighbours in all bytes. */
static uint64_t content(uint64_t number)
{
    return (number * UINT64_C(0x9E3779B97F4A7C15)) | 1;
}

/* Writes message `number`. */
static void fill(unsigned char *bytes, size_t size, uint64_t number)
{
    const uint64_t word = content(number);
    size_t at;

    for (at = 0; at + sizeof word <= size; at += sizeof word) {
        memcpy(bytes + at, &word, sizeof word);
    }
}

/* Reads all of it. */
static void check(const unsigned char *bytes, size_t size, uint64_t number)
{
    uint64_t sum = 0;
    size_t at;

    for (at = 0; at + sizeof sum <= size; at += sizeof sum) {
        uint64_t word;

        memcpy(&word, bytes + at, sizeof word);
        sum += word;
    }
    if (sum != content(number) * (size / sizeof sum)) {
        fail("a message is damaged");
    }
}

/* A negative number: wherever the system likes. */
static void pin(int cpu)
{
    cpu_set_t cpus;

    if (cpu < 0) {
        return;
    }
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        fail("this CPU cannot be used");
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The nanoseconds of a round trip. */
static uint64_t round_trip_ns(uint64_t number)
{
    const uint64_t sent = now_ns();

    there_and_back(number);
    return now_ns() - sent;
}

/* Prints the nanoseconds of each sample, a line each. Returns how many were taken in all. */
static uint64_t measure(const struct plan *plan, uint64_t (*sample_ns)(uint64_t number))
{
    const uint64_t bound_ns = (uint64_t)(plan->seconds * 1e9);
    unsigned long warm_up = plan->count / 10, samples = 0;
    uint64_t number = 0, start = now_ns();
    uint64_t *times = (uint64_t *)calloc(plan->count, sizeof *times);

    if (times == NULL) {
        fail("not so many samples");
    }
    if (warm_up < WARM_UP_MIN) {
        warm_up = WARM_UP_MIN;
    } else if (warm_up > WARM_UP_MAX) {
        warm_up = WARM_UP_MAX;
    }
    while (number < warm_up && (number == 0 || now_ns() - start < bound_ns)) {
        sample_ns(number++);
    }
    start = now_ns();
    do {
        times[samples++] = sample_ns(number++);
    } while (samples < plan->count && (now_ns() - start < bound_ns || samples < SAMPLES_MIN));
    for (unsigned long sample = 0; sample < samples; sample++) {
        printf("%llu\n", (unsigned long long)times[sample]);
    }
    free(times);
    return number;
}

/* One way: prints how many of `count` messages were sent in a second, the last acknowledged. */
static inline void measure_rate(const struct plan *plan, void (*send)(uint64_t number),
                                void (*wait_for_acknowledgement)(uint64_t number))
{
    const uint64_t start = now_ns();
    uint64_t number;

    for (number = 0; number < plan->count; number++) {
        send(number);
    }
    wait_for_acknowledgement(number);
    printf("%.0f\n", (double)plan->count * 1e9 / (double)(now_ns() - start));
}

#endif
