/*
 * Copies each picture once: out of the decoder's reference pictures into the slot that it leaves
 * in. An access unit is the core's own until it is given back.
 */
#include "pictures.h"

#include <string.h>

/* While an access unit is held: look now and then whether anybody still wants it. */
#define HOLDING_WAIT_MS 50u

/* What take() is handed. */
struct held_unit {
    struct hythe_endpoint *pictures;
    const struct hythe_buffer *unit;
};

/* An empty slot while the access unit is held; 0: its session ended first. */
static int lease_for(const struct held_unit *held, struct hythe_buffer *slot)
{
    while (hythe_lease(held->pictures, slot, HOLDING_WAIT_MS) != HYTHE_OK) {
        if (hythe_buffer_is_stale(held->unit)) {
            return 0;
        }
    }
    return 1;
}

static void take(void *context, const struct h264_picture *picture, uint32_t *info)
{
    struct hythe_buffer slot;
    uint32_t bytes = 0;

    if (!lease_for(context, &slot)) {
        return;
    }
    if (picture != NULL && picture->bytes > slot.length) {
        info[H264_INFO_STATUS] = H264_TOO_LARGE;
    } else if (picture != NULL) {
        h264_copy(slot.data, picture);
        bytes = picture->bytes;
    }
    memcpy(slot.slot, info, H264_INFO_WORDS * sizeof *info);
    while (hythe_publish(&slot, bytes, HOLDING_WAIT_MS) == HYTHE_E_FULL) {
        /* No port has taken anything: one of them will, or all of them will be gone. */
    }
}

int pictures_next(struct pictures *pictures, uint32_t wait_ms)
{
    struct hythe_buffer unit;
    struct held_unit held = {pictures->pictures, &unit};
    const struct h264_sink sink = {take, &held};

    if (hythe_receive(pictures->units, &unit, wait_ms) != HYTHE_OK) {
        return 0;
    }
    h264_decode(pictures->h264, unit.attachment, unit.data, unit.length, &sink);
    (void)hythe_release(&unit);
    return 1;
}
