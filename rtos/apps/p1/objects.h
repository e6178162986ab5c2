/* Methods and tasks by which a test has this core use semaphores and queues (README.md). */
#ifndef OBJECTS_H
#define OBJECTS_H

#include "hythe_mq.h"
#include "hythe_rpc.h"
#include "hythe_sem.h"
#include "hythe_task.h"

/* Open at once by methods. */
#define OBJECTS_OPEN_MAX 160
#define OBJECTS_METHODS 7
#define OBJECTS_BYTES_MAX (64u << 10)

struct objects {
    struct hythe_services *services;
    struct hythe_sem sems[OBJECTS_OPEN_MAX];
    struct hythe_mq queues[OBJECTS_OPEN_MAX];
    uint32_t notified;
    uint8_t message[OBJECTS_BYTES_MAX];
};

/* Writes the methods into a table. */
void objects_methods(struct objects *objects, struct hythe_rpc_method *table);

/* Cuts the next word out of a text, in place. */
char *objects_cut(char **text);

/* The task that does what its argument says, over and over, until it is to stop. */
void objects_run_worker(struct hythe_task *task);

#endif
