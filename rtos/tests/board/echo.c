/* Attaching, waiting with a bound, and echoing. Called by main.c and decode.c. */
#include "echo.h"

#include <stdlib.h>
#include <string.h>

#include "../test.h"

#define TIME_LIMIT_MS 20000
#define SLICE_MS 100

int wait_for_core(struct agent *agent)
{
    int waited;

    for (waited = 0; waited < TIME_LIMIT_MS && linux_state(&agent->side) != 1; waited += SLICE_MS) {
        agent_wait(agent, SLICE_MS);
    }
    return linux_state(&agent->side) == 1;
}

int wait_for_session_after(struct agent *agent, uint32_t session)
{
    int waited;

    for (waited = 0; waited < TIME_LIMIT_MS && load(core_word(&agent->side, 8)) == session;
         waited += SLICE_MS) {
        agent_wait(agent, SLICE_MS);
    }
    return load(core_word(&agent->side, 8)) != session && wait_for_core(agent);
}

static int attach(struct agent *agent, uint32_t endpoint)
{
    int waited;

    linux_attach(&agent->side, endpoint);
    agent_ring(agent);
    for (waited = 0; waited < TIME_LIMIT_MS; waited += SLICE_MS) {
        if (linux_attach_done(&agent->side, endpoint)) {
            return 1;
        }
        agent_wait(agent, SLICE_MS);
    }
    return 0;
}

int attach_all(struct agent *agent)
{
    uint32_t endpoint;

    for (endpoint = 0; endpoint < ALL; endpoint++) {
        if (!attach(agent, endpoint)) {
            printf("endpoint %u does not answer\n", endpoint);
            return 0;
        }
    }
    return 1;
}

static int linux_polls(const struct agent *agent)
{
    return agent->side.polls;
}

/* Polls for some milliseconds before it sleeps like anybody else. */
static int poll_for(struct agent *agent, uint32_t endpoint, struct descriptor *descriptor)
{
    uint64_t start = agent_now_ns();

    while (agent_now_ns() - start < 50000000u) {
        if (linux_take(&agent->side, endpoint, descriptor)) {
            return 1;
        }
    }
    return 0;
}

int take(struct agent *agent, uint32_t endpoint, struct descriptor *descriptor)
{
    int waited;

    if (linux_polls(agent) && poll_for(agent, endpoint, descriptor)) {
        return 1;
    }

    for (waited = 0; waited < TIME_LIMIT_MS; waited += SLICE_MS) {
        if (linux_take(&agent->side, endpoint, descriptor)) {
            return 1;
        }
        agent_wait(agent, SLICE_MS);
    }
    return 0;
}

static int by_value(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

static void fill(uint8_t *bytes, uint32_t count, uint32_t seed)
{
    uint32_t i;

    for (i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
    }
}

static int holds(const uint8_t *bytes, uint32_t count, uint32_t seed)
{
    uint32_t i;

    for (i = 0; i < count; i++) {
        if (bytes[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8))) {
            return 0;
        }
    }
    return 1;
}

void echo_rounds(struct agent *agent, uint32_t class_index, uint32_t rounds)
{
    struct linux_side *side = &agent->side;
    uint32_t room = side->slot_class[class_index].slot_bytes - 256;
    uint64_t *times = calloc(rounds, sizeof *times);
    uint32_t round;

    for (round = 0; round < rounds && test_sum.broken_checks == 0; round++) {
        struct descriptor sent = linux_slot(
            side, class_index, round % side->slot_class[class_index].slot_count, room - round % 5);
        struct descriptor got = {0};
        uint8_t *payload = agent->region + linux_slot_offset(side, sent.place) + sent.offset;
        uint64_t start;
        fill(payload, sent.length, round);
        start = agent_now_ns();
        linux_push(side, PING, sent);
        if (!linux_polls(agent)) {
            agent_ring(agent);
        }
        CHECK(take(agent, PONG, &got));
        times[round] = agent_now_ns() - start;
        CHECK(memcmp(&got, &sent, sizeof got) == 0);
        CHECK(holds(payload, sent.length, round));
        CHECK(take(agent, PING, &got));
        CHECK_EQUAL(got.length, LINUX_CREDIT);
        CHECK_EQUAL(got.place, sent.place);
    }
    qsort(times, rounds, sizeof *times, by_value);
    printf("  %u B, %s: round trip p50 %llu us\n", room, linux_polls(agent) ? "polling" : "bells",
           (unsigned long long)times[rounds / 2] / 1000);
    free(times);
}

void echo_polling(struct agent *agent, uint32_t class_index, uint32_t rounds)
{
    linux_poll(&agent->side, 1);
    echo_rounds(agent, class_index, rounds);
    linux_poll(&agent->side, 0);
    agent_ring(agent);
}
