/*
 * A message is six words, and a picture or samples. A picture leaves straight out of the decoder's
 * reference pictures: the copy into the fragments is its only one on the core.
 */
#include "copied.h"

#include "transfer.h"

enum {
    /* As many as pictures have, so that both are read the same way. */
    INFO_WORDS = H264_INFO_WORDS,
    INFO_BYTES = INFO_WORDS * sizeof(uint32_t)
};

static uint64_t unit_words[COPIED_UNIT_BYTES_MAX / sizeof(uint64_t)];
static uint64_t frame_words[FRAMES_BYTES_MAX / sizeof(uint64_t)];
static mp3d_sample_t samples[FRAMES_PCM_BYTES_MAX / sizeof(mp3d_sample_t)]
    __attribute__((aligned(sizeof(uint64_t))));
static struct frames frames;

static int should_stop(const void *task)
{
    return hythe_task_should_stop(task);
}

static int receive_memory(const struct copied *copied, struct hythe_buffer *memory)
{
    return hythe_receive(copied->memory, memory, 0) == HYTHE_OK;
}

static struct transfer over(const struct copied *copied, const struct hythe_buffer *memory,
                            const struct hythe_task *task)
{
    const struct transfer transfer = {
        .memory = memory,
        .port = copied->port,
        .should_end = should_stop,
        .context = task,
    };

    return transfer;
}

/* 0: it is over. */
static int send_samples(struct transfer *transfer, const uint32_t *info, uint32_t bytes)
{
    transfer_begin(transfer, INFO_BYTES + bytes);
    return transfer_put(transfer, info, INFO_BYTES) && transfer_put(transfer, samples, bytes);
}

static void serve_frames(struct transfer *transfer, const struct hythe_task *task)
{
    uint8_t *data = (uint8_t *)(void *)frame_words;
    struct frame frame = {data, 0, 0};
    uint32_t info[INFO_WORDS] = {0};

    do {
        frame.bytes = transfer_receive(transfer, data, FRAMES_BYTES_MAX);
        frame.sequence = frames_next(&frames);
    } while (frame.bytes != 0 && !hythe_task_should_stop(task) &&
             send_samples(transfer, info, frames_decode(&frames, &frame, samples, info)));
}

void copied_frames(const struct copied *copied, const struct hythe_task *task)
{
    struct hythe_buffer memory;

    if (receive_memory(copied, &memory)) {
        struct transfer transfer = over(copied, &memory, task);
        frames_start(&frames, memory.attachment);
        if (transfer_open(&transfer) == HYTHE_OK) {
            serve_frames(&transfer, task);
        }
        (void)hythe_release(&memory);
    }
}

static int send_plane(struct transfer *transfer, const struct h264_plane *plane)
{
    const uint8_t *row = plane->from;
    uint32_t y;

    if (plane->width == plane->stride) {
        return transfer_put(transfer, row, plane->width * plane->height);
    }
    for (y = 0; y < plane->height; y++) {
        if (!transfer_put(transfer, row, plane->width)) {
            return 0;
        }
        row += plane->stride;
    }
    return 1;
}

/* A transfer that is over is seen when the next access unit is waited for. */
static void take(void *context, const struct h264_picture *picture, uint32_t *info)
{
    struct transfer *transfer = context;

    if (picture != NULL && picture->bytes > COPIED_PICTURE_BYTES_MAX) {
        info[H264_INFO_STATUS] = H264_TOO_LARGE;
        picture = NULL;
    }
    transfer_begin(transfer, INFO_BYTES + (picture != NULL ? picture->bytes : 0));
    if (transfer_put(transfer, info, INFO_BYTES) && picture != NULL) {
        (void)(send_plane(transfer, &picture->planes[0]) &&
               send_plane(transfer, &picture->planes[1]) &&
               send_plane(transfer, &picture->planes[2]));
    }
}

static void serve_units(struct transfer *transfer, const struct hythe_task *task, struct h264 *h264)
{
    const struct h264_sink sink = {take, transfer};
    uint8_t *unit = (uint8_t *)(void *)unit_words;
    uint32_t bytes = transfer_receive(transfer, unit, COPIED_UNIT_BYTES_MAX);

    while (bytes != 0 && !hythe_task_should_stop(task)) {
        h264_decode(h264, transfer->memory->attachment, unit, bytes, &sink);
        bytes = transfer_receive(transfer, unit, COPIED_UNIT_BYTES_MAX);
    }
}

void copied_units(const struct copied *copied, const struct hythe_task *task, struct h264 *h264)
{
    struct hythe_buffer memory;

    if (receive_memory(copied, &memory)) {
        struct transfer transfer = over(copied, &memory, task);
        /* Numbers of another endpoint's streams may be the same. */
        h264_forget(h264);
        if (transfer_open(&transfer) == HYTHE_OK) {
            serve_units(&transfer, task, h264);
        }
        h264_forget(h264);
        (void)hythe_release(&memory);
    }
}
