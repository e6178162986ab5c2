/* MP3: one frame in, its samples out. Knows nothing of how both travel. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdint.h>

#include "mp3.h"

/* MPEG-1 layer III at 32 kHz and 320 kbit/s makes 1441 bytes; free format more. */
#define FRAMES_BYTES_MAX 4096u
#define FRAMES_PCM_BYTES_MAX (MINIMP3_MAX_SAMPLES_PER_FRAME * 2u)

/* Words that describe samples; also in apps/decoder/README.md. */
enum {
    FRAMES_INFO_HZ = 0,
    FRAMES_INFO_CHANNELS = 1,
    FRAMES_INFO_SAMPLES = 2,
    FRAMES_INFO_SEQUENCE = 3,
    FRAMES_INFO_STREAM = 4,
    FRAMES_INFO_WORDS = 5
};

/* What is kept between two frames of a stream: 6.7 KiB. */
struct frames {
    /* Which stream it is, and how many frames it had. */
    uint32_t number;
    uint32_t sequence;
    mp3dec_t decoder;
};

/* Begins a stream. */
void frames_start(struct frames *frames, uint32_t number);

/* A frame, and which of its stream it is. */
struct frame {
    const uint8_t *data;
    uint32_t bytes;
    uint32_t sequence;
};

/* The number of the next frame. First of all: one that a killed task had taken counts, too. */
uint32_t frames_next(struct frames *frames);

/*
 * Decodes a frame to `samples`, which has room for FRAMES_PCM_BYTES_MAX, the high byte of each
 * first, as RTP L16 wants it. Returns their bytes. The words of `info` describe them.
 */
uint32_t frames_decode(struct frames *frames, const struct frame *frame, mp3d_sample_t *samples,
                       uint32_t *info);

#endif
