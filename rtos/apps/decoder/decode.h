/* The decoding task: one MP3 frame in, one buffer of samples out (README.md). */
#ifndef DECODE_H
#define DECODE_H

#include "hythe_rt.h"
#include "mp3.h"

/* MPEG-1 layer III at 32 kHz and 320 kbit/s makes 1441 bytes; free format more. */
#define DECODE_FRAME_BYTES_MAX 4096u
#define DECODE_PCM_BYTES_MAX (MINIMP3_MAX_SAMPLES_PER_FRAME * 2u)

struct decode {
    struct hythe_endpoint *mp3;
    struct hythe_endpoint *pcm;
    /*
     * Of the stream that is being decoded: which attachment it belongs to, and how many frames it
     * had.
     */
    uint32_t attachment;
    uint32_t sequence;
    mp3dec_t decoder;
};

/*
 * The body of a FreeRTOS task; `argument` is a struct decode with both endpoints set and the rest
 * zero.
 */
void decode_run(void *argument);

#endif
