/*
 * Decodes where Linux put the access unit, and copies each picture once: out of the decoder's
 * reference pictures, which it goes on using, into the slot that it leaves in.
 *
 * h264bsd removes emulation prevention bytes in place: an access unit is the core's own until it is
 * given back, and is worth nothing afterwards.
 */
#include "pictures.h"

#include <string.h>

#include "h264bsd_decoder.h"
#include "heap.h"

/* While an access unit is held: look now and then whether anybody still wants it. */
#define HOLDING_WAIT_MS 50u

/* A NAL unit takes up to three calls: a picture ends, parameter sets change, it is decoded. */
#define CALLS_WITHOUT_PROGRESS_MAX 3u

/* Words at the start of a slot of `picture`. */
enum {
    INFO_WIDTH = 0,
    INFO_HEIGHT = 1,
    INFO_NUMBER = 2,
    INFO_STREAM = 3,
    INFO_DECODE_US = 4,
    INFO_STATUS = 5,
    INFO_WORDS = 6
};

/* INFO_STATUS; also in apps/player/README.md. */
enum {
    STATUS_GOOD = 0,
    /* Parts of the picture were made up from others. */
    STATUS_CONCEALED = 1,
    /* No picture: the bytes cannot be decoded. */
    STATUS_ERROR = 2,
    /* No picture: parameter sets are missing, or beyond what this decoder does. */
    STATUS_PARAMETERS = 3,
    /* No picture: the arena is too small. */
    STATUS_MEMORY = 4,
    /* No picture: it does not fit into a slot. */
    STATUS_TOO_LARGE = 5
};

/* One access unit, and what came of it so far. */
struct work {
    struct pictures *pictures;
    const struct hythe_buffer *unit;
    uint32_t number;
    uint32_t decode_us;
    uint32_t status;
    uint32_t published;
};

/* A part of a plane of the decoder's. */
struct plane {
    const uint8_t *from;
    uint32_t stride;
    uint32_t left;
    uint32_t top;
    uint32_t width;
    uint32_t height;
};

static uint8_t *copy_plane(uint8_t *to, const struct plane *plane)
{
    const uint8_t *row = plane->from + (size_t)plane->top * plane->stride + plane->left;
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

/* What is to be seen of a decoded picture. */
static struct plane visible(storage_t *decoder)
{
    struct plane luma = {.stride = h264bsdPicWidth(decoder) * 16};
    u32 is_cropped = 0;
    u32 left = 0;
    u32 width = 0;
    u32 top = 0;
    u32 height = 0;

    luma.width = luma.stride;
    luma.height = h264bsdPicHeight(decoder) * 16;
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

static uint32_t picture_bytes(const struct plane *luma)
{
    return luma->width * luma->height + 2 * (luma->width / 2) * (luma->height / 2);
}

static void copy_picture(uint8_t *to, const uint8_t *picture, struct plane luma, uint32_t rows)
{
    struct plane chroma = {
        .stride = luma.stride / 2,
        .left = luma.left / 2,
        .top = luma.top / 2,
        .width = luma.width / 2,
        .height = luma.height / 2,
    };
    size_t luma_bytes = (size_t)luma.stride * rows;

    luma.from = picture;
    to = copy_plane(to, &luma);
    chroma.from = picture + luma_bytes;
    to = copy_plane(to, &chroma);
    chroma.from += luma_bytes / 4;
    (void)copy_plane(to, &chroma);
}

/* An empty slot while the access unit is held; 0: its session ended first. */
static int lease_for(const struct work *work, struct hythe_buffer *slot)
{
    while (hythe_lease(work->pictures->pictures, slot, HOLDING_WAIT_MS) != HYTHE_OK) {
        if (hythe_buffer_is_stale(work->unit)) {
            return 0;
        }
    }
    return 1;
}

/* Publishes `picture`, or, if that is NULL, that there is none. */
static void publish(struct work *work, const uint8_t *picture, uint32_t number, uint32_t status)
{
    struct plane luma = {.stride = 0};
    struct hythe_buffer slot;
    uint32_t *words;
    uint32_t bytes = 0;

    if (!lease_for(work, &slot)) {
        return;
    }
    if (picture != NULL) {
        storage_t *decoder = work->pictures->decoder;
        luma = visible(decoder);
        bytes = picture_bytes(&luma);
        if (bytes <= slot.length) {
            copy_picture(slot.data, picture, luma, h264bsdPicHeight(decoder) * 16);
        } else {
            bytes = 0;
            status = STATUS_TOO_LARGE;
        }
    }
    words = (uint32_t *)(void *)slot.slot;
    words[INFO_WIDTH] = luma.width;
    words[INFO_HEIGHT] = luma.height;
    words[INFO_NUMBER] = number;
    words[INFO_STREAM] = work->unit->attachment;
    words[INFO_DECODE_US] = work->decode_us;
    words[INFO_STATUS] = status;
    work->published++;
    while (hythe_publish(&slot, bytes, HOLDING_WAIT_MS) == HYTHE_E_FULL) {
        /* No port has taken anything: one of them will, or all of them will be gone. */
    }
}

/* All pictures whose turn it is to be shown. */
static void publish_ready(struct work *work)
{
    storage_t *decoder = work->pictures->decoder;
    u32 number = 0;
    u32 is_key = 0;
    u32 concealed = 0;
    const uint8_t *picture = h264bsdNextOutputPicture(decoder, &number, &is_key, &concealed);

    while (picture != NULL) {
        publish(work, picture, number, concealed != 0 ? STATUS_CONCEALED : STATUS_GOOD);
        picture = h264bsdNextOutputPicture(decoder, &number, &is_key, &concealed);
    }
}

/* One call of the decoder; what it took of the bytes. */
static uint32_t decode_some(struct work *work, uint8_t *at, uint32_t bytes)
{
    struct pictures *pictures = work->pictures;
    uint64_t start_us = pictures->now_us();
    u32 taken = 0;
    u32 result = h264bsdDecode(pictures->decoder, at, bytes, work->number, &taken);

    work->decode_us += (uint32_t)(pictures->now_us() - start_us);
    switch (result) {
    case H264BSD_PIC_RDY:
        publish_ready(work);
        break;
    case H264BSD_ERROR:
        work->status = STATUS_ERROR;
        /* What it could not make sense of is passed over. */
        taken = taken == 0 ? bytes : taken;
        break;
    case H264BSD_PARAM_SET_ERROR:
        /* One that has them was given a damaged slice. */
        work->status =
            h264bsdCheckValidParamSets(pictures->decoder) ? STATUS_ERROR : STATUS_PARAMETERS;
        taken = taken == 0 ? bytes : taken;
        break;
    case H264BSD_MEMALLOC_ERROR:
        work->status = STATUS_MEMORY;
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

static void forget(struct pictures *pictures)
{
    h264_heap_reset();
    pictures->decoder = NULL;
    pictures->attachment = 0;
}

/* Has the decoder begin anew if the stream is another one; 0: the arena is too small. */
static int attend(struct pictures *pictures, const struct hythe_buffer *unit)
{
    if (pictures->attachment == unit->attachment) {
        return pictures->decoder != NULL;
    }
    forget(pictures);
    pictures->attachment = unit->attachment;
    pictures->decoder = h264bsdAlloc();
    if (pictures->decoder == NULL || h264bsdInit(pictures->decoder, 0) != 0) {
        pictures->decoder = NULL;
        return 0;
    }
    return 1;
}

static void answer(struct pictures *pictures, const struct hythe_buffer *unit)
{
    struct work work = {.pictures = pictures, .unit = unit, .status = STATUS_GOOD};
    uint32_t bytes = unit->length;

    if (bytes < PICTURES_PREFIX_BYTES) {
        work.status = STATUS_ERROR;
    } else if (!attend(pictures, unit)) {
        work.status = STATUS_MEMORY;
    } else {
        memcpy(&work.number, unit->data, sizeof work.number);
        decode_unit(&work, unit->data + PICTURES_PREFIX_BYTES, bytes - PICTURES_PREFIX_BYTES);
        if (bytes == PICTURES_PREFIX_BYTES) {
            h264bsdFlushBuffer(pictures->decoder);
            publish_ready(&work);
        }
    }
    if (work.published == 0 || bytes <= PICTURES_PREFIX_BYTES) {
        publish(&work, NULL, work.number, work.status);
    }
}

void pictures_start(struct pictures *pictures)
{
    if (pictures->is_busy) {
        forget(pictures);
        pictures->is_busy = 0;
    }
}

int pictures_next(struct pictures *pictures, uint32_t wait_ms)
{
    struct hythe_buffer unit;

    if (hythe_receive(pictures->units, &unit, wait_ms) != HYTHE_OK) {
        return 0;
    }
    pictures->is_busy = 1;
    answer(pictures, &unit);
    pictures->is_busy = 0;
    (void)hythe_release(&unit);
    return 1;
}
