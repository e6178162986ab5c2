/*
 * Restricted tasks: registered tasks (hythe_task.h) that the processor keeps inside of what they
 * were granted. Such a task sees the program's code and constants, its own stack, and what its
 * struct hythe_restriction names; nothing of the kernel, the link or other tasks. One that reads,
 * writes or runs anything else is stopped at that instruction, and shown as faulted.
 *
 * It reaches the link by the gate, a task of the program beside it, which does for it what it asks
 * for. Where the gate is told an address, it looks whether the task itself could reach it, before
 * it reads or writes there. Both are one registered task: what the gate holds is the task's, and
 * goes back when it ends.
 *
 *     static const struct hythe_restriction restriction = {.run = worker, ...};
 *     configs[i].run = hythe_gate_run;
 *     configs[i].restriction = &restriction;
 *     configs[i].memory = &restricted[i];     (struct hythe_freertos_restricted)
 *
 * For programs on a port of FreeRTOS with an MPU (hythe_freertos_mpu.h); elsewhere
 * hythe_tasks_start() refuses a restricted task.
 */
#ifndef HYTHE_GATE_H
#define HYTHE_GATE_H

#include "hythe_mq.h"
#include "hythe_sem.h"
#include "hythe_shm.h"
#include "hythe_task.h"

/* Buffers that a restricted task may have at once. */
#define HYTHE_GATE_BUFFERS 4u
/* Semaphores that it may use, and queues. */
#define HYTHE_GATE_OBJECTS 2u

struct hythe_gate;

/* A segment that a restricted task sees. */
struct hythe_segment_grant {
    /* Attached when the task starts, and as long as it runs. */
    const struct hythe_shm *segment;
    /* HYTHE_SHM_RDONLY or 0. */
    uint32_t flags;
};

/* What a restricted task may; for as long as its configuration. */
struct hythe_restriction {
    /*
     * The task itself. Uses no memory but its stack and what it was granted: no variables of the
     * program. It may return.
     */
    void (*run)(struct hythe_gate *gate);
    /* 1: it sees all slots. Without, it can use no buffers. */
    uint32_t slots;
    const struct hythe_segment_grant *segments;
    uint32_t segment_count;
    /* Those that it may use, by their place here. */
    struct hythe_endpoint *const *endpoints;
    uint32_t endpoint_count;
    /* Names of semaphores and queues that there are, HYTHE_GATE_OBJECTS of each at most. */
    const char *const *semaphores;
    uint32_t semaphore_count;
    const char *const *queues;
    uint32_t queue_count;
};

/* ---- For the restricted task. Results are those of the functions they are named after. ---- */

/* In its stack. */
struct hythe_gate {
    /* Bytes of Linux, ended by a zero byte that does not count. */
    char argument[HYTHE_TASK_ARGUMENT_BYTES + 1];
    uint32_t argument_bytes;
    /* Private. */
    uintptr_t queue;
};

/* A buffer that it has; a copy of it is the same one. */
struct hythe_gate_buffer {
    uint8_t *data;
    uint32_t length;
    /* Its number at the gate, from 1 on; 0: nothing is held. */
    uint32_t number;
};

int hythe_gate_should_stop(const struct hythe_gate *gate);

/* HYTHE_E_ARGUMENT also with no such endpoint; HYTHE_E_FULL: it has HYTHE_GATE_BUFFERS. */
int hythe_gate_receive(const struct hythe_gate *gate, uint32_t endpoint,
                       struct hythe_gate_buffer *buffer, uint32_t timeout_ms);
int hythe_gate_lease(const struct hythe_gate *gate, uint32_t endpoint,
                     struct hythe_gate_buffer *buffer, uint32_t timeout_ms);

/* The buffer is held afterwards if its number is not 0. */
int hythe_gate_publish(const struct hythe_gate *gate, struct hythe_gate_buffer *buffer,
                       uint32_t length, uint32_t timeout_ms);
int hythe_gate_forward(const struct hythe_gate *gate, struct hythe_gate_buffer *buffer,
                       uint32_t endpoint, uint32_t timeout_ms);
int hythe_gate_release(const struct hythe_gate *gate, struct hythe_gate_buffer *buffer);

/*
 * Semaphores and queues by their place. The gate opens them with the first call, for both
 * directions; they are closed, and counts that the task took are a dead holder's, when it ends.
 * Results are error numbers of Linux; -HYTHE_EBADF also with no such place; -HYTHE_EFAULT: it does
 * not reach the message's memory itself.
 */
int hythe_gate_sem_wait(const struct hythe_gate *gate, uint32_t semaphore, uint32_t timeout_ms);
int hythe_gate_sem_post(const struct hythe_gate *gate, uint32_t semaphore);
int hythe_gate_mq_send(const struct hythe_gate *gate, uint32_t queue, const void *message,
                       uint32_t bytes, uint32_t priority, uint32_t timeout_ms);
int hythe_gate_mq_receive(const struct hythe_gate *gate, uint32_t queue, void *buffer,
                          uint32_t capacity, uint32_t *priority, uint32_t timeout_ms);

/* Needs no gate. */
void hythe_gate_sleep(uint32_t time_ms);

/* ---- For the program ---- */

/* `run` of a restricted task's configuration. */
void hythe_gate_run(struct hythe_task *task);

#endif
