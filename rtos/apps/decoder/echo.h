/* The echo task: what comes over one endpoint is forwarded over another, in the same slot. */
#ifndef ECHO_H
#define ECHO_H

#include "hythe_rt.h"

struct echo {
    struct hythe_endpoint *ping;
    struct hythe_endpoint *pong;
};

/* The body of a FreeRTOS task; `argument` is a struct echo. */
void echo_run(void *argument);

#endif
