/* A task that takes turns with a process in a segment (README.md). */
#ifndef PAIR_H
#define PAIR_H

#include "objects.h"

/* `ID BYTES stored|computed FROM TO`, until it is to stop. */
void pair_run(struct hythe_task *task, struct hythe_services *services, int writes, char *argument);

#endif
