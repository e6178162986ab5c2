/*
 * `size` thousand integers, sorted `rounds` times: each task makes its share, sends every other
 * task the keys of its range (all to all), and counts what it has got. What a range gets differs,
 * so the counts go first.
 */
#define _GNU_SOURCE

#include "program.h"

static const struct program PROGRAM = {"sort", 1024, 40, 65536};

enum {
    /* Of keys: as many bits as the class W of the integer sort of the NAS benchmarks has. */
    KEY_BITS = 16,
    KEYS = 1 << KEY_BITS
};

/* The sum of two, so that the middle is more frequent than the edges, as in the NAS benchmarks. */
static int key_of(uint32_t number, uint32_t round)
{
    const uint32_t one = program_hash(number * 2 + round * 7919u) % KEYS;
    const uint32_t other = program_hash(number * 2 + 1 + round * 7919u) % KEYS;

    return (int)((one + other) / 2);
}

static void make_keys(int *keys, int first, int count, int round)
{
    int index;

    for (index = 0; index < count; index++) {
        keys[index] = key_of((uint32_t)(first + index), (uint32_t)round);
    }
}

/* By counting, in place. */
static void sort_keys(int *keys, int count, int *counts)
{
    int index, key, at = 0;

    memset(counts, 0, KEYS * sizeof *counts);
    for (index = 0; index < count; index++) {
        counts[keys[index]]++;
    }
    for (key = 0; key < KEYS; key++) {
        for (index = 0; index < counts[key]; index++) {
            keys[at++] = key;
        }
    }
}

/* The task whose range has this key. */
static int owner_of(int key)
{
    return (int)((int64_t)key * message.count / KEYS);
}

static int add_up(const int *counts, int *places)
{
    int rank, at = 0;

    for (rank = 0; rank < message.count; rank++) {
        places[rank] = at;
        at += counts[rank];
    }
    return at;
}

/* Sorts the share of this task into `sorted`; returns how many keys its range has. */
static int sort_share(const int *keys, int count, int *grouped, int *sorted, int *counts)
{
    int to[MESSAGE_TASKS_MAX] = {0}, to_at[MESSAGE_TASKS_MAX] = {0}, filled[MESSAGE_TASKS_MAX];
    int from[MESSAGE_TASKS_MAX] = {0}, from_at[MESSAGE_TASKS_MAX] = {0};
    int ones[MESSAGE_TASKS_MAX], places[MESSAGE_TASKS_MAX];
    int index, rank, all;

    for (index = 0; index < count; index++) {
        to[owner_of(keys[index])]++;
    }
    add_up(to, to_at);
    memcpy(filled, to_at, sizeof filled);
    for (index = 0; index < count; index++) {
        grouped[filled[owner_of(keys[index])]++] = keys[index];
    }
    for (rank = 0; rank < message.count; rank++) {
        ones[rank] = 1;
        places[rank] = rank;
    }
    message_all_to_all(MESSAGE_INTS, to, ones, places, from, ones, places);
    all = add_up(from, from_at);
    message_all_to_all(MESSAGE_INTS, grouped, to, to_at, sorted, from, from_at);
    sort_keys(sorted, all, counts);
    return all;
}

/* Rank 0 gets all ranges in their order; outside of the time. Returns how many keys there are. */
static int gather(const int *own, int count, int *all, int room)
{
    int rank, at = count;

    if (message.rank != 0) {
        message_send(0, MESSAGE_INTS, &count, 1);
        message_send(0, MESSAGE_INTS, own, count);
        return 0;
    }
    memcpy(all, own, (size_t)count * sizeof *own);
    for (rank = 1; rank < message.count; rank++) {
        int of_it;

        message_receive(rank, MESSAGE_INTS, &of_it, 1);
        if (of_it < 0 || of_it > room - at) {
            message_fail("the ranges have more keys than were made");
        }
        message_receive(rank, MESSAGE_INTS, all + at, of_it);
        at += of_it;
    }
    return at;
}

int main(int argc, char **argv)
{
    const struct program_options options = program_begin(&PROGRAM, argc, argv);
    const int size = options.size * 1024, share = program_share(size, message.rank);
    const int first = program_first(size, message.rank);
    int *keys = program_memory((size_t)share, sizeof *keys);
    int *grouped = program_memory((size_t)share, sizeof *grouped);
    int *sorted = program_memory((size_t)size, sizeof *sorted);
    int *counts = program_memory(KEYS, sizeof *counts);
    struct program_clock clock;
    int round, own = 0, code = EXIT_SUCCESS;

    clock = program_start();
    for (round = 0; round < options.rounds; round++) {
        make_keys(keys, first, share, round);
        own = sort_share(keys, share, grouped, sorted, counts);
    }
    program_stop(&clock);
    if (message.rank == 0) {
        int *serial = program_memory((size_t)size, sizeof *serial);
        int *all = program_memory((size_t)size, sizeof *all);
        const int count = gather(sorted, own, all, size);
        const uint64_t start = message_now_ns();
        uint64_t serial_ns;
        long differs = labs((long)size - count);
        int index;

        for (round = 0; round < options.rounds; round++) {
            make_keys(serial, 0, size, round);
            sort_keys(serial, size, counts);
        }
        serial_ns = message_now_ns() - start;
        for (index = 0; index < size; index++) {
            differs += all[index] != serial[index];
        }
        code = program_report(&PROGRAM, &options, &clock, serial_ns, differs);
        free(all);
        free(serial);
    } else {
        gather(sorted, own, NULL, 0);
    }
    free(keys);
    free(grouped);
    free(sorted);
    free(counts);
    message_end();
    return code;
}
