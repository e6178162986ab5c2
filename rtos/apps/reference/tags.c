/* See tags.h. */
#include "tags.h"

#include <string.h>

#include "mp3.h"

#define APE_HAS_HEADER 0x80000000u

void skip_front(struct bytes *bytes, size_t count)
{
    if (count > bytes->count) {
        count = bytes->count;
    }
    bytes->at += count;
    bytes->count -= count;
}

/* Ten bytes of header, the size in four times seven bits, a footer if flagged. */
void skip_id3v2(struct bytes *bytes)
{
    const uint8_t *tag = bytes->at;

    while (bytes->count >= 10 && memcmp(tag, "ID3", 3) == 0 &&
           ((tag[5] & 15) | (tag[6] & 0x80) | (tag[7] & 0x80) | (tag[8] & 0x80) |
            (tag[9] & 0x80)) == 0) {
        size_t size = (size_t)((tag[6] & 0x7f) << 21 | (tag[7] & 0x7f) << 14 |
                               (tag[8] & 0x7f) << 7 | (tag[9] & 0x7f));
        skip_front(bytes, 10 + size + ((tag[5] & 16) != 0 ? 10 : 0));
        tag = bytes->at;
    }
}

static uint32_t little_endian(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void skip_tail_tags(struct bytes *bytes)
{
    const uint8_t *end = bytes->at + bytes->count;

    if (bytes->count >= 128 && memcmp(end - 128, "TAG", 3) == 0) {
        bytes->count -= 128;
        end -= 128;
        if (bytes->count >= 227 && memcmp(end - 227, "TAG+", 4) == 0) {
            bytes->count -= 227;
            end -= 227;
        }
    }
    if (bytes->count >= 32 && memcmp(end - 32, "APETAGEX", 8) == 0) {
        /* The size counts the footer; APEv1 has no header, and APEv2 says whether it has one. */
        size_t size = little_endian(end - 32 + 12);
        if ((little_endian(end - 32 + 20) & APE_HAS_HEADER) != 0) {
            size += 32;
        }
        if (bytes->count >= size) {
            bytes->count -= size;
        }
    }
}

/*
 * Is this whole frame of layer III one that describes the others? Behind the side information, in
 * front of which a CRC may stand.
 */
static int is_info(const uint8_t *frame, size_t count)
{
    int is_mpeg_1 = (frame[1] & 8) != 0;
    int is_mono = (frame[3] & 0xc0) == 0xc0;
    size_t side = is_mpeg_1 ? (is_mono ? 17 : 32) : (is_mono ? 9 : 17);
    size_t at = 4 + side;
    int has_crc = (frame[1] & 1) == 0;
    int try;

    for (try = 0; try <= has_crc; try++, at += 2) {
        if (at + 4 <= count &&
            (memcmp(frame + at, "Xing", 4) == 0 || memcmp(frame + at, "Info", 4) == 0)) {
            return 1;
        }
    }
    return count >= 40 && memcmp(frame + 36, "VBRI", 4) == 0;
}

void skip_info_frame(struct bytes *bytes)
{
    mp3dec_t decoder;
    mp3dec_frame_info_t info;
    int count = bytes->count > INT32_MAX ? INT32_MAX : (int)bytes->count;

    mp3dec_init(&decoder);
    /* Without room for samples, the frame is only found. */
    if (mp3dec_decode_frame(&decoder, bytes->at, count, NULL, &info) > 0 &&
        is_info(bytes->at + info.frame_offset, (size_t)(info.frame_bytes - info.frame_offset))) {
        skip_front(bytes, (size_t)info.frame_bytes);
    }
}
