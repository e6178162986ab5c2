/*
 * What passes between a restricted task and its gate, and the gate's inside, for hythe_gate.c,
 * hythe_gate_client.c, hythe_freertos_mpu.c and the tests.
 */
#ifndef HYTHE_GATE_CALL_H
#define HYTHE_GATE_CALL_H

#include "hythe_gate.h"

enum hythe_gate_operation {
    /* Puts the argument, `bytes` of them at most, at `at`; `value`: where the task begins. */
    HYTHE_GATE_BEGIN = 0,
    HYTHE_GATE_END = 1,
    HYTHE_GATE_SHOULD_STOP = 2,
    /* Of endpoint `target`: `buffer`, `at` and `bytes` become the buffer. */
    HYTHE_GATE_RECEIVE = 3,
    HYTHE_GATE_LEASE = 4,
    /* Of `buffer`, which becomes 0 when it is gone. */
    HYTHE_GATE_PUBLISH = 5,
    HYTHE_GATE_FORWARD = 6,
    HYTHE_GATE_RELEASE = 7,
    /* Of semaphore `target`. */
    HYTHE_GATE_SEM_WAIT = 8,
    HYTHE_GATE_SEM_POST = 9,
    /* Of queue `target`: `bytes` at `at`; `value` is the priority. */
    HYTHE_GATE_MQ_SEND = 10,
    HYTHE_GATE_MQ_RECEIVE = 11,
    HYTHE_GATE_OPERATIONS = 12
};

/* In the restricted task's memory. The gate works on a copy, and puts that back. */
struct hythe_gate_call {
    uint32_t operation;
    uint32_t target;
    uint32_t buffer;
    uint32_t bytes;
    uint32_t timeout_ms;
    int32_t result;
    uintptr_t value;
    uint8_t *at;
};

/* Asks the gate and waits for its answer, which is bounded as the call is. */
int hythe_gate_ask(const struct hythe_gate *gate, struct hythe_gate_call *call);

/* Memory that the restricted task reaches. */
struct hythe_gate_range {
    uintptr_t first;
    size_t bytes;
    int is_writable;
};

/* Its stack, the slots, and segments as far as there are regions. */
#define HYTHE_GATE_RANGES 5u

/* The gate of one restricted task. */
struct hythe_gate_server {
    struct hythe_task *task;
    struct hythe_gate_range ranges[HYTHE_GATE_RANGES];
    uint32_t range_count;
    struct hythe_buffer buffers[HYTHE_GATE_BUFFERS];
    struct hythe_sem semaphores[HYTHE_GATE_OBJECTS];
    struct hythe_mq queues[HYTHE_GATE_OBJECTS];
    int has_ended;
};

/* Can the task reach all `bytes` from `at` on, to write them if `writes`? */
int hythe_gate_reaches(const struct hythe_gate_server *server, uintptr_t at, size_t bytes,
                       int writes);

/* Does what the call at this address says. One that the task cannot reach is left alone. */
void hythe_gate_serve(struct hythe_gate_server *server, uintptr_t at);

#endif
