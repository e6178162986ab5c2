/*
 * H.264 Constrained Baseline: one access unit in, its pictures out. Knows nothing of how both
 * travel. One decoder, used by one task: its memory is the arena of heap.h.
 */
#ifndef H264_H
#define H264_H

#include <stdint.h>

/* The number in front of an access unit. */
#define H264_PREFIX_BYTES 4u

/* Words that describe a picture, or say why there is none; also in apps/player/README.md. */
enum {
    H264_INFO_WIDTH = 0,
    H264_INFO_HEIGHT = 1,
    H264_INFO_NUMBER = 2,
    H264_INFO_STREAM = 3,
    H264_INFO_DECODE_US = 4,
    H264_INFO_STATUS = 5,
    H264_INFO_WORDS = 6
};

/* H264_INFO_STATUS */
enum {
    H264_GOOD = 0,
    /* Parts of the picture were made up from others. */
    H264_CONCEALED = 1,
    /* No picture: the bytes cannot be decoded. */
    H264_ERROR = 2,
    /* No picture: parameter sets are missing, or beyond what this decoder does. */
    H264_PARAMETERS = 3,
    /* No picture: the arena is too small. */
    H264_MEMORY = 4,
    /* No picture: it is larger than what it travels in. Said by whoever sends it. */
    H264_TOO_LARGE = 5
};

/* What is to be seen of a plane; rows are `stride` apart. */
struct h264_plane {
    const uint8_t *from;
    uint32_t stride;
    uint32_t width;
    uint32_t height;
};

/* Luma and both chroma planes, in the decoder's memory, which it goes on using. */
struct h264_picture {
    struct h264_plane planes[3];
    /* Without gaps. */
    uint32_t bytes;
};

/* Where pictures go to. */
struct h264_sink {
    /*
     * Takes what came of an access unit, before h264_decode() returns: a picture, or NULL if there
     * is none, and its words, which it may change.
     */
    void (*take)(void *context, const struct h264_picture *picture, uint32_t *info);
    void *context;
};

struct h264 {
    /* Set by the program, the rest zero. Counts microseconds from any start; from any task. */
    uint64_t (*now_us)(void);
    /* Private: h264bsd's, in its arena; of which stream it is, 0: none. */
    void *decoder;
    uint32_t stream;
    /* An access unit is in work. */
    uint32_t is_busy;
};

/*
 * A task calls it before its first access unit: if the one before it was killed within the decoder,
 * the stream is forgotten, and the next access unit begins one.
 */
void h264_start(struct h264 *h264);

/* The next access unit begins a stream. */
void h264_forget(struct h264 *h264);

/*
 * Decodes an access unit behind its number, which it destroys: h264bsd works in place. Another
 * `stream`, never 0, begins anew. The sink gets something at least once.
 */
void h264_decode(struct h264 *h264, uint32_t stream, uint8_t *unit, uint32_t bytes,
                 const struct h264_sink *sink);

/* The whole picture, plane by plane, without gaps. */
void h264_copy(uint8_t *to, const struct h264_picture *picture);

#endif
