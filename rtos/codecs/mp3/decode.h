/*
 * MP3 over Hythe: one frame in, one buffer of samples out, as apps/decoder/README.md says. Used by
 * one task of each program that decodes.
 */
#ifndef DECODE_H
#define DECODE_H

#include "frames.h"
#include "hythe_rt.h"

struct decode {
    struct hythe_endpoint *mp3;
    struct hythe_endpoint *pcm;
    /* One for each port that an endpoint can have: no port waits for another's. */
    struct frames streams[HYTHE_MAX_PORTS];
};

/*
 * Waits up to `wait_ms` for a frame, decodes it and publishes its samples; 0: none came. `decode`
 * has both endpoints set and the rest zero before the first call. By one task; that may end and
 * another go on.
 */
int decode_next(struct decode *decode, uint32_t wait_ms);

#endif
