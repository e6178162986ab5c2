/* The tasks of this program, as Linux lists them. */
#ifndef TASKS_H
#define TASKS_H

#include "board.h"
#include "copied.h"
#include "decode.h"
#include "h264.h"
#include "hythe_freertos.h"
#include "hythe_task.h"
#include "pictures.h"

/* What the task `audio` has. */
struct audio {
    struct decode decode;
    struct copied copied;
};

/* What the task `video` has. */
struct video {
    struct h264 h264;
    struct pictures pictures;
    struct copied copied;
};

/* Makes all tasks, and the one that serves `control`. */
int tasks_start(struct hythe_link *link, struct hythe_freertos *freertos, struct audio *audio,
                struct video *video, struct hythe_endpoint *control, const struct board *board);

#endif
