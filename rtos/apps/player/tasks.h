/* The tasks of this program, as Linux lists them. */
#ifndef TASKS_H
#define TASKS_H

#include "board.h"
#include "decode.h"
#include "hythe_freertos.h"
#include "hythe_task.h"
#include "pictures.h"

/* Makes all tasks, and the one that serves `control`. */
int tasks_start(struct hythe_link *link, struct hythe_freertos *freertos, struct decode *decode,
                struct pictures *pictures, struct hythe_endpoint *control,
                const struct board *board);

#endif
