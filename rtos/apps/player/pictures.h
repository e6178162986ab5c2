/*
 * Pictures over Hythe: one access unit in, its pictures out, as README.md says. Used by one task.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include "h264.h"
#include "hythe_rt.h"

/* One slot of the largest class of every board, without its headroom: both ways. */
#define PICTURES_BYTES_MAX (1u << 20)

struct pictures {
    struct hythe_endpoint *units;
    struct hythe_endpoint *pictures;
    struct h264 *h264;
};

/*
 * Waits up to `wait_ms` for an access unit, decodes it where Linux put it, publishes what came of
 * it; 0: none came.
 */
int pictures_next(struct pictures *pictures, uint32_t wait_ms);

#endif
