/*
 * One MP3 frame in, one buffer of samples out. Between two frames no buffer is held. Never copies a
 * payload: minimp3 reads the frame where Linux put it and writes the samples where they leave from.
 */
#include "decode.h"

/*
 * Waiting for an empty slot or for free capacity, a frame is held: look now and then whether
 * anybody still wants it.
 */
#define HOLDING_WAIT_MS 50u

/* Words at the start of a slot of `pcm`. */
enum {
    INFO_HZ = 0,
    INFO_CHANNELS = 1,
    INFO_SAMPLES = 2,
    INFO_SEQUENCE = 3,
    INFO_STREAM = 4,
    INFO_WORDS = 5
};

/* The stream of the frame's port; a new one if the port has attached anew. */
static struct decode_stream *stream_of(struct decode *decode, const struct hythe_buffer *frame)
{
    /* The library has as many ports, and numbers them from 0. */
    struct decode_stream *stream = &decode->streams[frame->port];

    if (stream->attachment != frame->attachment) {
        mp3dec_init(&stream->decoder);
        stream->attachment = frame->attachment;
        stream->sequence = 0;
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
    return pcm->length >= DECODE_PCM_BYTES_MAX &&
           (uintptr_t)pcm->data % sizeof(mp3d_sample_t) == 0 &&
           (size_t)(pcm->data - pcm->slot) >= INFO_WORDS * sizeof(uint32_t);
}

/* RTP L16 wants the high byte first; in place, since samples are written where they leave from. */
static void to_network_order(uint8_t *samples, uint32_t count)
{
    const mp3d_sample_t *host_order = (const mp3d_sample_t *)(const void *)samples;
    uint32_t i;

    for (i = 0; i < count; i++) {
        uint16_t sample = (uint16_t)host_order[i];
        samples[2 * i] = (uint8_t)(sample >> 8);
        samples[2 * i + 1] = (uint8_t)sample;
    }
}

/* Fills the slot; returns the bytes of payload. */
static uint32_t decode_frame(struct decode_stream *stream, const struct hythe_buffer *frame,
                             const struct hythe_buffer *pcm, uint32_t sequence)
{
    mp3dec_frame_info_t info = {0, 0, 0, 0, 0, 0};
    uint32_t *words = (uint32_t *)(void *)pcm->slot;
    uint32_t samples =
        (uint32_t)mp3dec_decode_frame(&stream->decoder, frame->data, (int)frame->length,
                                      (mp3d_sample_t *)(void *)pcm->data, &info);

    words[INFO_HZ] = (uint32_t)info.hz;
    words[INFO_CHANNELS] = (uint32_t)info.channels;
    words[INFO_SAMPLES] = samples;
    words[INFO_SEQUENCE] = sequence;
    words[INFO_STREAM] = stream->attachment;
    to_network_order(pcm->data, samples * (uint32_t)info.channels);
    return samples * (uint32_t)info.channels * (uint32_t)sizeof(mp3d_sample_t);
}

static void answer(struct decode *decode, const struct hythe_buffer *frame)
{
    struct decode_stream *stream = stream_of(decode, frame);
    /* First of all: a frame that a killed task had taken counts, too. */
    uint32_t sequence = stream->sequence++;
    struct hythe_buffer pcm;
    uint32_t bytes;

    if (!lease_for(decode, frame, &pcm)) {
        return;
    }
    bytes = fits(&pcm) && frame->length <= DECODE_FRAME_BYTES_MAX
                ? decode_frame(stream, frame, &pcm, sequence)
                : 0;
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
