/*
 * One MP3 frame in, one buffer of samples out. Between two frames no buffer is held. Never copies a
 * payload: minimp3 reads the frame where Linux put it and writes the samples where they leave from.
 */
#include "decode.h"

#include <string.h>

/*
 * Waiting for an empty slot or for free capacity, a frame is held: look now and then whether
 * anybody still wants it.
 */
#define HOLDING_WAIT_MS 50u

/* The stream of the frame's port; a new one if the port has attached anew. */
static struct frames *stream_of(struct decode *decode, const struct hythe_buffer *frame)
{
    /* The library has as many ports, and numbers them from 0. */
    struct frames *stream = &decode->streams[frame->port];

    if (stream->number != frame->attachment) {
        frames_start(stream, frame->attachment);
    }
    return stream;
}

/* An empty slot for the frame that is held; 0: the frame's session ended first. */
static int lease_for(struct decode *decode, const struct hythe_buffer *frame,
                     struct hythe_buffer *pcm)
{
    while (hythe_lease(decode->pcm, pcm, HOLDING_WAIT_MS) != HYTHE_OK) {
        if (hythe_buffer_is_stale(frame)) {
            return 0;
        }
    }
    return 1;
}

/* Can the slot take any frame's samples, and the words at its start? */
static int fits(const struct hythe_buffer *pcm)
{
    return pcm->length >= FRAMES_PCM_BYTES_MAX &&
           (uintptr_t)pcm->data % sizeof(mp3d_sample_t) == 0 &&
           (size_t)(pcm->data - pcm->slot) >= FRAMES_INFO_WORDS * sizeof(uint32_t);
}

static void answer(struct decode *decode, const struct hythe_buffer *frame)
{
    struct frames *stream = stream_of(decode, frame);
    const struct frame taken = {frame->data, frame->length, frames_next(stream)};
    struct hythe_buffer pcm;
    uint32_t info[FRAMES_INFO_WORDS];
    uint32_t bytes = 0;

    if (!lease_for(decode, frame, &pcm)) {
        return;
    }
    if (fits(&pcm) && frame->length <= FRAMES_BYTES_MAX) {
        bytes = frames_decode(stream, &taken, (mp3d_sample_t *)(void *)pcm.data, info);
        memcpy(pcm.slot, info, sizeof info);
    }
    while (hythe_publish(&pcm, bytes, HOLDING_WAIT_MS) == HYTHE_E_FULL) {
        /* No port has taken anything: one of them will, or all of them will be gone. */
    }
}

int decode_next(struct decode *decode, uint32_t wait_ms)
{
    struct hythe_buffer frame;

    if (hythe_receive(decode->mp3, &frame, wait_ms) != HYTHE_OK) {
        return 0;
    }
    answer(decode, &frame);
    (void)hythe_release(&frame);
    return 1;
}
