/* The tasks of this program that Linux lists, starts, stops and kills by name (README.md). */
#ifndef TASKS_H
#define TASKS_H

#include "hythe_freertos.h"
#include "hythe_task.h"
#include "objects.h"
#include "segments.h"

/* What the tasks use. */
struct work {
    struct hythe_endpoint *ping;
    struct hythe_endpoint *pong;
    struct hythe_endpoint *count;
    struct hythe_client *client;
    struct segments *segments;
    struct objects *objects;
};

/* Registers all tasks and starts those that run from the start. `methods` is for methods_run(). */
int tasks_start(struct hythe_link *link, struct hythe_freertos *freertos, struct work *work,
                void *methods, struct hythe_endpoint *control);

#endif
