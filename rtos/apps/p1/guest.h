/* Restricted tasks of this program, on boards that can restrict tasks (README.md). */
#ifndef GUEST_H
#define GUEST_H

#include "hythe_freertos_mpu.h"
#include "segments.h"
#include "tasks.h"

/* How many there are: none where the port cannot restrict them. */
#if portUSING_MPU_WRAPPERS
#define GUESTS 2
#else
#define GUESTS 0
#endif
#define GUESTS_METHODS 1

/* The endpoints that they may use, by their place. */
enum {
    GUEST_PING = 0,
    GUEST_PONG = 1,
    GUEST_COUNT = 2,
    GUEST_ENDPOINTS = 3
};

/* Such a task itself. */
void guest_run(struct hythe_gate *gate);

/*
 * Writes their configurations, which use the segments that are attached at the first places of the
 * table.
 */
void guests_configure(struct hythe_task_config *configs, const struct work *work,
                      const struct segments *segments);

/* Writes the method into a table by which a test learns addresses of this program. */
void guests_methods(const struct hythe_link *link, struct hythe_rpc_method *table);

#endif
