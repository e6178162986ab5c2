/* Around minimp3: streams, and the order of a sample's bytes. */
#include "frames.h"

/* In place, since samples are written where they leave from. */
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

void frames_start(struct frames *frames, uint32_t number)
{
    mp3dec_init(&frames->decoder);
    frames->number = number;
    frames->sequence = 0;
}

uint32_t frames_next(struct frames *frames)
{
    return frames->sequence++;
}

uint32_t frames_decode(struct frames *frames, const struct frame *frame, mp3d_sample_t *samples,
                       uint32_t *info)
{
    mp3dec_frame_info_t decoded = {0, 0, 0, 0, 0, 0};
    uint32_t count = (uint32_t)mp3dec_decode_frame(&frames->decoder, frame->data, (int)frame->bytes,
                                                   samples, &decoded);
    uint32_t all = count * (uint32_t)decoded.channels;

    info[FRAMES_INFO_HZ] = (uint32_t)decoded.hz;
    info[FRAMES_INFO_CHANNELS] = (uint32_t)decoded.channels;
    info[FRAMES_INFO_SAMPLES] = count;
    info[FRAMES_INFO_SEQUENCE] = frame->sequence;
    info[FRAMES_INFO_STREAM] = frames->number;
    to_network_order((uint8_t *)(void *)samples, all);
    return all * (uint32_t)sizeof(mp3d_sample_t);
}
