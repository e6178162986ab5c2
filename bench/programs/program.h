/*
 * What the parallel programs have in common beside their messages: the command line, the shares of
 * the tasks, the clock, and the line that rank 0 prints.
 *
 * Usage: PROGRAM [--tasks N] [--hosts A,B] [--cpus X,Y] [--size N] [--rounds N] [--seconds-max N]
 *
 * Prints, by rank 0, one line of JSON: the time from the start of the work, all tasks being there,
 * to its end, and the time in communication (message.h) of it, both the mean of all tasks; the time
 * of the serial program, which the result was compared with; what was sent. A result that differs
 * ends with exit code 1 and a message.
 */
#ifndef HYTHE_BENCH_PROGRAM_H
#define HYTHE_BENCH_PROGRAM_H

#include "message.h"

struct program_options {
    int tasks;
    int size;
    int rounds;
    int seconds_max;
    struct message_places places;
};

/* Of one program: its name, and what is done where nothing is said. */
struct program {
    const char *name;
    int size;
    int rounds;
    int size_max;
};

struct program_clock {
    uint64_t start_ns;
    uint64_t total_ns;
    uint64_t spent_ns;
    uint64_t sent;
    uint64_t sent_bytes;
};

/* A number of the command line; anything else is wrong use. */
static int program_number(const char *name, const char *text, int most)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "%s takes a number from 1 to %d, not %s\n", name, most, text);
        exit(2);
    }
    return (int)value;
}

static struct program_options program_options(const struct program *program, int argc, char **argv)
{
    struct program_options options = {0, program->size, program->rounds, 120, {"", ""}};
    int at = 1;

    if (at < argc && strcmp(argv[at], MESSAGE_TASK) == 0) {
        at++;
    }
    for (; at + 1 < argc; at += 2) {
        const char *name = argv[at], *text = argv[at + 1];

        if (strcmp(name, "--tasks") == 0) {
            options.tasks = program_number(name, text, MESSAGE_TASKS_MAX);
        } else if (strcmp(name, "--hosts") == 0) {
            options.places.hosts = text;
        } else if (strcmp(name, "--cpus") == 0) {
            options.places.cpus = text;
        } else if (strcmp(name, "--size") == 0) {
            options.size = program_number(name, text, program->size_max);
        } else if (strcmp(name, "--rounds") == 0) {
            options.rounds = program_number(name, text, 1000000);
        } else if (strcmp(name, "--seconds-max") == 0) {
            options.seconds_max = program_number(name, text, 86400);
        } else {
            break;
        }
    }
    if (at != argc) {
        fprintf(stderr,
                "%s: not known, or without its value; usage: %s [--tasks N] "
                "[--hosts A,B] [--cpus X,Y] [--size N] [--rounds N] [--seconds-max N]\n",
                argv[at], program->name);
        exit(2);
    }
    return options;
}

/* Starts the tasks. */
static struct program_options program_begin(const struct program *program, int argc, char **argv)
{
    const struct program_options options = program_options(program, argc, argv);

    message_begin(&argc, &argv, options.tasks, &options.places, (unsigned)options.seconds_max);
    return options;
}

static void *program_memory(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);

    if (memory == NULL) {
        message_fail("there is not enough memory: choose a smaller --size");
    }
    return memory;
}

/* The first of `items` that is this rank's; the next rank's is where its share ends. */
static int program_first(int items, int rank)
{
    return (int)((int64_t)items * rank / message.count);
}

static int program_share(int items, int rank)
{
    return program_first(items, rank + 1) - program_first(items, rank);
}

/* Pseudo-random, the same in every task (the finalizer of MurmurHash3). */
static inline uint32_t program_hash(uint32_t number)
{
    number ^= number >> 16;
    number *= 0x85EBCA6Bu;
    number ^= number >> 13;
    number *= 0xC2B2AE35u;
    return number ^ number >> 16;
}

/* From 0 to below 1. */
static inline double program_fraction(uint32_t number)
{
    return (double)program_hash(number) / 4294967296.0;
}

/* Each task: from here on the time counts. */
static struct program_clock program_start(void)
{
    struct program_clock clock = {0, 0, 0, 0, 0};

    message_barrier();
    message.spent_ns = message.sent = message.sent_bytes = 0;
    clock.start_ns = message_now_ns();
    return clock;
}

/* Each task: up to here, when all are done. */
static void program_stop(struct program_clock *clock)
{
    double sums[4];

    message_barrier();
    sums[0] = (double)(message_now_ns() - clock->start_ns);
    sums[1] = (double)message.spent_ns;
    sums[2] = (double)message.sent;
    sums[3] = (double)message.sent_bytes;
    message_sum(sums, 4);
    clock->total_ns = (uint64_t)(sums[0] / message.count);
    clock->spent_ns = (uint64_t)(sums[1] / message.count);
    clock->sent = (uint64_t)sums[2];
    clock->sent_bytes = (uint64_t)sums[3];
}

/* Rank 0 gets all shares of rows of `width` doubles into `all`; outside of the time. */
static inline void program_gather(const double *own, double *all, int rows, int width)
{
    int rank;

    if (message.rank != 0) {
        message_send(0, MESSAGE_DOUBLES, own, program_share(rows, message.rank) * width);
        return;
    }
    memcpy(all, own, message_bytes(MESSAGE_DOUBLES, program_share(rows, 0) * width));
    for (rank = 1; rank < message.count; rank++) {
        message_receive(rank, MESSAGE_DOUBLES,
                        all + (size_t)program_first(rows, rank) * (size_t)width,
                        program_share(rows, rank) * width);
    }
}

/* Rank 0: the exit code. `differs`: how many elements of the result are not the serial one's. */
static int program_report(const struct program *program, const struct program_options *options,
                          const struct program_clock *clock, uint64_t serial_ns, long differs)
{
    if (differs != 0) {
        fprintf(stderr, "%s: the result differs from the serial one in %ld elements\n",
                program->name, differs);
        return EXIT_FAILURE;
    }
    printf("{\"program\":\"%s\",\"system\":\"%s\",\"tasks\":%d,\"size\":%d,\"rounds\":%d,"
           "\"total_ns\":%llu,\"communication_ns\":%llu,\"serial_ns\":%llu,\"messages\":%llu,"
           "\"bytes\":%llu}\n",
           program->name, MESSAGE_SYSTEM, message.count, options->size, options->rounds,
           (unsigned long long)clock->total_ns, (unsigned long long)clock->spent_ns,
           (unsigned long long)serial_ns, (unsigned long long)clock->sent,
           (unsigned long long)clock->sent_bytes);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
