/* What the kernel counts the run time of tasks with: CLOCK_MONOTONIC. Never blocks. */
#define _GNU_SOURCE

#include <stdint.h>
#include <time.h>

#include "board.h"

const uint32_t board_clock_hz = 1000000000;

uint64_t board_clock(void)
{
    static time_t first;
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    /* From this process's start on: the kernel takes its first task to have run since 0. */
    if (first == 0) {
        first = now.tv_sec;
    }
    return (uint64_t)(now.tv_sec - first) * board_clock_hz + (uint64_t)now.tv_nsec;
}
