/*
 * H.264 Constrained Baseline on a core: one access unit in, its pictures out, as
 * apps/player/README.md says. One decoder, used by one task.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include "hythe_rt.h"

/* The number in front of an access unit. */
#define PICTURES_PREFIX_BYTES 4u
/* One slot of the largest class of every board, without its headroom: both ways. */
#define PICTURES_BYTES_MAX (1u << 20)

struct pictures {
    struct hythe_endpoint *units;
    struct hythe_endpoint *pictures;
    /* Counts microseconds from any start; from any task. */
    uint64_t (*now_us)(void);
    /* Private: h264bsd's, in its arena; of which attachment the stream is, 0: none. */
    void *decoder;
    uint32_t attachment;
    /* An access unit is in work. */
    uint32_t is_busy;
};

/*
 * A task calls it before its first pictures_next(): if the one before it was killed within the
 * decoder, the stream is forgotten, and the next access unit begins one.
 */
void pictures_start(struct pictures *pictures);

/* Waits up to `wait_ms` for an access unit, decodes it, publishes what came of it; 0: none came. */
int pictures_next(struct pictures *pictures, uint32_t wait_ms);

#endif
