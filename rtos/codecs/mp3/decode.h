/*
 * MP3 on a core: one frame in, one buffer of samples out, as apps/decoder/README.md says. Used by
 * one task of each program that decodes.
 */
#ifndef DECODE_H
#define DECODE_H

#include "hythe_rt.h"
#include "mp3.h"

/* MPEG-1 layer III at 32 kHz and 320 kbit/s makes 1441 bytes; free format more. */
#define DECODE_FRAME_BYTES_MAX 4096u
#define DECODE_PCM_BYTES_MAX (MINIMP3_MAX_SAMPLES_PER_FRAME * 2u)

/* What is kept between two frames of a Linux port: 6.7 KiB. */
struct decode_stream {
    /* Which attachment of the port it belongs to, and how many frames it had. */
    uint32_t attachment;
    uint32_t sequence;
    mp3dec_t decoder;
};

struct decode {
    struct hythe_endpoint *mp3;
    struct hythe_endpoint *pcm;
    /* One for each port that an endpoint can have: no port waits for another's. */
    struct decode_stream streams[HYTHE_MAX_PORTS];
};

/*
 * Waits up to `wait_ms` for a frame, decodes it and publishes its samples; 0: none came. `decode`
 * has both endpoints set and the rest zero before the first call. By one task; that may end and
 * another go on.
 */
int decode_next(struct decode *decode, uint32_t wait_ms);

#endif
