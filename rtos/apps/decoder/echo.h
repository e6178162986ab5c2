/* The echo tasks: what comes over one endpoint leaves over another, buffers in the same slot. */
#ifndef ECHO_H
#define ECHO_H

#include "hythe_rt.h"
#include "query.h"

struct echo {
    struct hythe_endpoint *ping;
    struct hythe_endpoint *pong;
    struct hythe_endpoint *knock;
    struct hythe_endpoint *answer;
    struct hythe_endpoint *ask;
    struct query query;
};

/* Bodies of FreeRTOS tasks, for buffers, events and requests; `argument` is a struct echo. */
void echo_run(void *argument);
void answer_run(void *argument);
void reply_run(void *argument);

#endif
