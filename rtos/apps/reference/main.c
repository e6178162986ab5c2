/*
 * decode-reference FILE.mp3 OUT.pcm: decodes a whole file with minimp3 on the host, the way every player does: one
 * buffer, one loop. The judge of what a core decoded frame by frame.
 *
 * Writes signed 16-bit little-endian samples, channels interleaved, and prints one JSON line. Tags are left out as
 * minimp3's own mp3dec_detect and mp3dec_load do: ID3v2 in front, ID3v1 and APE behind. Called by tests and `hythe
 * demo`.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mp3.h"

struct bytes {
    const uint8_t *at;
    size_t count;
};

struct sum {
    int hz;
    int channels;
    unsigned long frames;
    unsigned long empty_frames;
    unsigned long long samples;
};

/* ---- Tags ---- */

static void skip_front(struct bytes *bytes, size_t count)
{
    if (count > bytes->count) {
        count = bytes->count;
    }
    bytes->at += count;
    bytes->count -= count;
}

/* ID3v2: ten bytes of header, the size in four times seven bits, a footer if flagged. */
static void skip_id3v2(struct bytes *bytes)
{
    const uint8_t *tag = bytes->at;

    while (bytes->count >= 10 && memcmp(tag, "ID3", 3) == 0 &&
           ((tag[5] & 15) | (tag[6] & 0x80) | (tag[7] & 0x80) | (tag[8] & 0x80) | (tag[9] & 0x80)) == 0) {
        size_t size = (size_t)((tag[6] & 0x7f) << 21 | (tag[7] & 0x7f) << 14 | (tag[8] & 0x7f) << 7 | (tag[9] & 0x7f));
        skip_front(bytes, 10 + size + ((tag[5] & 16) != 0 ? 10 : 0));
        tag = bytes->at;
    }
}

static uint32_t little_endian(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void skip_tail_tags(struct bytes *bytes)
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
        size_t size = little_endian(end - 32 + 12) + (size_t)32;
        if (bytes->count >= size) {
            bytes->count -= size;
        }
    }
}

/* ---- Decoding ---- */

static int write_samples(FILE *out, const mp3d_sample_t *samples, size_t count)
{
    uint8_t bytes[MINIMP3_MAX_SAMPLES_PER_FRAME * 2];
    size_t i;

    for (i = 0; i < count; i++) {
        bytes[2 * i] = (uint8_t)samples[i];
        bytes[2 * i + 1] = (uint8_t)((uint16_t)samples[i] >> 8);
    }
    return fwrite(bytes, 2, count, out) == count;
}

static int decode(struct bytes bytes, FILE *out, struct sum *sum)
{
    static mp3dec_t decoder;
    mp3dec_frame_info_t info;
    mp3d_sample_t samples[MINIMP3_MAX_SAMPLES_PER_FRAME];

    mp3dec_init(&decoder);
    for (;;) {
        int rest = bytes.count > INT32_MAX ? INT32_MAX : (int)bytes.count;
        int count = mp3dec_decode_frame(&decoder, bytes.at, rest, samples, &info);
        if (info.frame_bytes == 0) {
            return 1;
        }
        if (count > 0) {
            sum->hz = sum->hz != 0 ? sum->hz : info.hz;
            sum->channels = sum->channels != 0 ? sum->channels : info.channels;
            sum->frames++;
            sum->samples += (unsigned)count;
            if (!write_samples(out, samples, (size_t)count * (size_t)info.channels)) {
                return 0;
            }
        } else if (info.hz != 0) {
            sum->empty_frames++;
        }
        skip_front(&bytes, (size_t)info.frame_bytes);
    }
}

/* ---- Files ---- */

static int failed(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return 1;
}

/* The whole file; the caller frees it. NULL with errno. */
static uint8_t *read_file(const char *path, size_t *count)
{
    uint8_t *bytes = NULL;
    long size;
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        return NULL;
    }
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = malloc((size_t)size + 1);
        *count = (size_t)size;
        if (bytes != NULL && fread(bytes, 1, *count, file) != *count) {
            free(bytes);
            bytes = NULL;
        }
    }
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    struct sum sum = {0, 0, 0, 0, 0};
    struct bytes bytes = {NULL, 0};
    uint8_t *file;
    FILE *out;
    int written;

    if (argc != 3) {
        fprintf(stderr, "usage: %s FILE.mp3 OUT.pcm\n", argv[0]);
        return 2;
    }
    file = read_file(argv[1], &bytes.count);
    if (file == NULL) {
        return failed(argv[1]);
    }
    bytes.at = file;
    skip_id3v2(&bytes);
    skip_tail_tags(&bytes);
    out = fopen(argv[2], "wb");
    if (out == NULL) {
        free(file);
        return failed(argv[2]);
    }
    written = decode(bytes, out, &sum);
    free(file);
    if (fclose(out) != 0 || !written) {
        return failed(argv[2]);
    }
    if (sum.frames == 0) {
        fprintf(stderr, "%s: no MP3 frame in it\n", argv[1]);
        return 1;
    }
    printf("{\"hz\": %d, \"channels\": %d, \"frames\": %lu, \"empty_frames\": %lu, \"samples\": %llu}\n", sum.hz,
           sum.channels, sum.frames, sum.empty_frames, sum.samples);
    return 0;
}
