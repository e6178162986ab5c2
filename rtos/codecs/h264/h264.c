/*
 * Around h264bsd: streams, what its results mean, and what of its pictures is to be seen.
 *
 * h264bsd removes emulation prevention bytes in place: an access unit is worth nothing afterwards.
 * Its pictures are its reference pictures: later ones are made from them, so whoever takes one
 * copies it.
 */
#include "h264.h"

#include <stddef.h>
#include <string.h>

#include "h264bsd_decoder.h"
#include "heap.h"

/* A NAL unit takes up to three calls: a picture ends, parameter sets change, it is decoded. */
#define CALLS_WITHOUT_PROGRESS_MAX 3u

/* One access unit, and what came of it so far. */
struct work {
    struct h264 *h264;
    const struct h264_sink *sink;
    uint32_t number;
    uint32_t decode_us;
    uint32_t status;
    uint32_t taken;
};

/* A part of a picture. */
struct rectangle {
    uint32_t left;
    uint32_t top;
    uint32_t width;
    uint32_t height;
};

static struct rectangle visible(storage_t *decoder)
{
    struct rectangle luma = {0, 0, h264bsdPicWidth(decoder) * 16, h264bsdPicHeight(decoder) * 16};
    u32 is_cropped = 0;
    u32 left = 0;
    u32 width = 0;
    u32 top = 0;
    u32 height = 0;

    h264bsdCroppingParams(decoder, &is_cropped, &left, &width, &top, &height);
    if (is_cropped && left <= luma.width && width <= luma.width - left && top <= luma.height &&
        height <= luma.height - top) {
        luma.left = left;
        luma.top = top;
        luma.width = width;
        luma.height = height;
    }
    return luma;
}

static struct h264_plane plane_of(const uint8_t *from, uint32_t stride, struct rectangle seen)
{
    const struct h264_plane plane = {from + (size_t)seen.top * stride + seen.left, stride,
                                     seen.width, seen.height};

    return plane;
}

static struct h264_picture picture_of(storage_t *decoder, const uint8_t *decoded)
{
    uint32_t stride = h264bsdPicWidth(decoder) * 16;
    size_t luma_bytes = (size_t)stride * h264bsdPicHeight(decoder) * 16;
    struct rectangle luma = visible(decoder);
    const struct rectangle chroma = {luma.left / 2, luma.top / 2, luma.width / 2, luma.height / 2};
    struct h264_picture picture;

    picture.planes[0] = plane_of(decoded, stride, luma);
    picture.planes[1] = plane_of(decoded + luma_bytes, stride / 2, chroma);
    picture.planes[2] = plane_of(decoded + luma_bytes + luma_bytes / 4, stride / 2, chroma);
    picture.bytes = luma.width * luma.height + 2 * chroma.width * chroma.height;
    return picture;
}

/* `decoded` is NULL: there is none. */
static void take(struct work *work, const uint8_t *decoded, uint32_t number, uint32_t status)
{
    uint32_t info[H264_INFO_WORDS] = {0};
    struct h264_picture picture;

    info[H264_INFO_NUMBER] = number;
    info[H264_INFO_STREAM] = work->h264->stream;
    info[H264_INFO_DECODE_US] = work->decode_us;
    info[H264_INFO_STATUS] = status;
    if (decoded != NULL) {
        picture = picture_of(work->h264->decoder, decoded);
        info[H264_INFO_WIDTH] = picture.planes[0].width;
        info[H264_INFO_HEIGHT] = picture.planes[0].height;
    }
    work->taken++;
    work->sink->take(work->sink->context, decoded != NULL ? &picture : NULL, info);
}

/* All pictures whose turn it is to be shown. */
static void take_ready(struct work *work)
{
    storage_t *decoder = work->h264->decoder;
    u32 number = 0;
    u32 is_key = 0;
    u32 concealed = 0;
    const uint8_t *picture = h264bsdNextOutputPicture(decoder, &number, &is_key, &concealed);

    while (picture != NULL) {
        take(work, picture, number, concealed != 0 ? H264_CONCEALED : H264_GOOD);
        picture = h264bsdNextOutputPicture(decoder, &number, &is_key, &concealed);
    }
}

/* One call of the decoder; what it took of the bytes. */
static uint32_t decode_some(struct work *work, uint8_t *at, uint32_t bytes)
{
    struct h264 *h264 = work->h264;
    uint64_t start_us = h264->now_us();
    u32 taken = 0;
    u32 result = h264bsdDecode(h264->decoder, at, bytes, work->number, &taken);

    work->decode_us += (uint32_t)(h264->now_us() - start_us);
    switch (result) {
    case H264BSD_PIC_RDY:
        take_ready(work);
        break;
    case H264BSD_ERROR:
        work->status = H264_ERROR;
        /* What it could not make sense of is passed over. */
        taken = taken == 0 ? bytes : taken;
        break;
    case H264BSD_PARAM_SET_ERROR:
        /* One that has them was given a damaged slice. */
        work->status = h264bsdCheckValidParamSets(h264->decoder) ? H264_ERROR : H264_PARAMETERS;
        taken = taken == 0 ? bytes : taken;
        break;
    case H264BSD_MEMALLOC_ERROR:
        work->status = H264_MEMORY;
        taken = bytes;
        break;
    default:
        break;
    }
    return taken < bytes ? taken : bytes;
}

static void decode_unit(struct work *work, uint8_t *at, uint32_t bytes)
{
    uint32_t idle_calls = 0;

    while (bytes > 0 && idle_calls < CALLS_WITHOUT_PROGRESS_MAX) {
        uint32_t taken = decode_some(work, at, bytes);
        idle_calls = taken == 0 ? idle_calls + 1 : 0;
        at += taken;
        bytes -= taken;
    }
}

/* Has the decoder begin anew if the stream is another one; 0: the arena is too small. */
static int attend(struct h264 *h264, uint32_t stream)
{
    if (h264->stream == stream) {
        return h264->decoder != NULL;
    }
    h264_forget(h264);
    h264->stream = stream;
    h264->decoder = h264bsdAlloc();
    if (h264->decoder == NULL || h264bsdInit(h264->decoder, 0) != 0) {
        h264->decoder = NULL;
        return 0;
    }
    return 1;
}

void h264_start(struct h264 *h264)
{
    if (h264->is_busy) {
        h264_forget(h264);
        h264->is_busy = 0;
    }
}

void h264_forget(struct h264 *h264)
{
    h264_heap_reset();
    h264->decoder = NULL;
    h264->stream = 0;
}

void h264_decode(struct h264 *h264, uint32_t stream, uint8_t *unit, uint32_t bytes,
                 const struct h264_sink *sink)
{
    struct work work = {.h264 = h264, .sink = sink, .status = H264_GOOD};

    h264->is_busy = 1;
    if (bytes < H264_PREFIX_BYTES) {
        work.status = H264_ERROR;
    } else if (!attend(h264, stream)) {
        work.status = H264_MEMORY;
    } else {
        memcpy(&work.number, unit, sizeof work.number);
        decode_unit(&work, unit + H264_PREFIX_BYTES, bytes - H264_PREFIX_BYTES);
        if (bytes == H264_PREFIX_BYTES) {
            h264bsdFlushBuffer(h264->decoder);
            take_ready(&work);
        }
    }
    if (work.taken == 0 || bytes <= H264_PREFIX_BYTES) {
        take(&work, NULL, work.number, work.status);
    }
    h264->is_busy = 0;
}

static uint8_t *copy_plane(uint8_t *to, const struct h264_plane *plane)
{
    const uint8_t *row = plane->from;
    uint32_t y;

    if (plane->width == plane->stride) {
        size_t bytes = (size_t)plane->width * plane->height;
        memcpy(to, row, bytes);
        return to + bytes;
    }
    for (y = 0; y < plane->height; y++) {
        memcpy(to, row, plane->width);
        to += plane->width;
        row += plane->stride;
    }
    return to;
}

void h264_copy(uint8_t *to, const struct h264_picture *picture)
{
    to = copy_plane(to, &picture->planes[0]);
    to = copy_plane(to, &picture->planes[1]);
    (void)copy_plane(to, &picture->planes[2]);
}
