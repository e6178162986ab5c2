/*
 * Ping-pong over Cyclone DDS with its shared memory: a sample is loaned, written in place and
 * published, and the other side takes a loan of it.
 *
 * The peer "cyclonedds" of `hythe bench ipc`, which makes dds_message.h of dds_message.idl for each
 * size, compiles this, and starts RouDi and both sides. The near side measures; the far one answers
 * until the last message comes. `untouched` samples are neither written nor read.
 *
 * Usage: dds_peer near|far untouched|filled SIZE COUNT SECONDS CPU DOMAIN
 */
#define _GNU_SOURCE

#include <dds/dds.h>
#include <stdbool.h>

#include "dds_message.h"
#include "exchange.h"

enum {
    DEPTH = 4
};

static dds_entity_t writer, reader;
static size_t bytes;
static bool is_touched;

static void put_message(uint64_t number, bool is_last)
{
    void *loaned;

    while (dds_loan_sample(writer, &loaned) != DDS_RETCODE_OK) {
    }
    ((HytheBenchMessage *)loaned)->is_last = is_last;
    if (is_touched) {
        fill(((HytheBenchMessage *)loaned)->payload, bytes, number);
    }
    if (dds_write(writer, loaned) != DDS_RETCODE_OK) {
        fail("a sample cannot be written");
    }
}

static void put(uint64_t number)
{
    put_message(number, false);
}

/* False: the other side has finished. */
static bool take(uint64_t number)
{
    for (;;) {
        void *samples[1] = {NULL};
        dds_sample_info_t infos[1];
        const dds_return_t count = dds_take(reader, samples, infos, 1, 1);
        bool is_message = false, is_last = false;

        if (count < 0) {
            fail("nothing can be taken");
        }
        if (count == 0) {
            continue;
        }
        if (infos[0].valid_data) {
            const HytheBenchMessage *message = samples[0];

            is_message = true;
            is_last = message->is_last != 0;
            if (is_touched && !is_last) {
                check(message->payload, bytes, number);
            }
        }
        dds_return_loan(reader, samples, count);
        if (is_message) {
            return !is_last;
        }
    }
}

static void there_and_back(uint64_t number)
{
    put(number);
    if (!take(number)) {
        fail("the other side has finished");
    }
}

static void open_ends(bool is_near, dds_domainid_t domain)
{
    const dds_entity_t participant = dds_create_participant(domain, NULL, NULL);
    dds_qos_t *qos = dds_create_qos();
    dds_entity_t there, back;

    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, DEPTH);
    dds_qset_durability(qos, DDS_DURABILITY_VOLATILE);
    there = dds_create_topic(participant, &HytheBenchMessage_desc, "hythe_bench_there", NULL, NULL);
    back = dds_create_topic(participant, &HytheBenchMessage_desc, "hythe_bench_back", NULL, NULL);
    writer = dds_create_writer(participant, is_near ? there : back, qos, NULL);
    reader = dds_create_reader(participant, is_near ? back : there, qos, NULL);
    dds_delete_qos(qos);
    if (participant < 0 || writer < 0 || reader < 0) {
        fail("no participant, writer or reader can be made");
    }
    if (!dds_is_loan_available(writer) || !dds_is_shared_memory_available(writer) ||
        !dds_is_shared_memory_available(reader)) {
        fail("shared memory is not in use");
    }
}

static void meet(void)
{
    dds_publication_matched_status_t published = {0};
    dds_subscription_matched_status_t subscribed = {0};

    while (published.current_count < 1 || subscribed.current_count < 1) {
        if (dds_get_publication_matched_status(writer, &published) != DDS_RETCODE_OK ||
            dds_get_subscription_matched_status(reader, &subscribed) != DDS_RETCODE_OK) {
            fail("nobody can be met");
        }
        dds_sleepfor(DDS_MSECS(1));
    }
}

int main(int argc, char **argv)
{
    struct plan plan;
    bool is_near;

    if (argc != 8) {
        fail("usage: dds_peer near|far untouched|filled SIZE COUNT SECONDS CPU DOMAIN");
    }
    is_near = strcmp(argv[1], "near") == 0;
    is_touched = strcmp(argv[2], "untouched") != 0;
    plan.size = strtoul(argv[3], NULL, 10);
    plan.count = strtoul(argv[4], NULL, 10);
    plan.seconds = strtod(argv[5], NULL);
    bytes = plan.size;
    open_ends(is_near, (dds_domainid_t)strtoul(argv[7], NULL, 10));
    meet();
    /* Only now: the threads of the library run anywhere. */
    pin(atoi(argv[6]));
    if (is_near) {
        /* The far side may have met us later than we met it: it has once it answers. */
        measure(&plan, round_trip_ns);
        put_message(0, true);
        /* What was written last is lost with its writer. */
        dds_sleepfor(DDS_MSECS(100));
    } else {
        uint64_t number;

        for (number = 0; take(number); number++) {
            put(number);
        }
    }
    dds_delete(DDS_CYCLONEDDS_HANDLE);
    return 0;
}
