/*
 * decode-reference FILE.mp3 OUT.pcm: decodes a whole file with minimp3 on the host, the way every
 * player does: one buffer, one loop. The judge of what a core decoded frame by frame.
 *
 * Writes signed 16-bit little-endian samples, channels interleaved, and prints one JSON line. Tags
 * are left out: ID3v2 in front, ID3v1 and APE behind. So is a first frame that only describes the
 * others (Xing, Info, VBRI). The last frame is decoded whatever follows it, where minimp3 by itself
 * wants another one behind. Called by tests and `hythe demo`.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mp3.h"
#include "tags.h"

struct sum {
    int hz;
    int channels;
    unsigned long frames;
    unsigned long empty_frames;
    unsigned long long samples;
};

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

/*
 * No frame of layer III is longer: 144 * 320000 / 32000, one more with padding; MPEG-2.5 at 160
 * kbit/s and 8 kHz.
 */
#define FRAME_BYTES_MAX 1441

/*
 * What a player decodes of the rest, in which minimp3 finds no frame: one that continues the stream
 * and is whole, with something behind it that is no frame. minimp3 takes a frame that ends with the
 * buffer, so that is where it is made to end.
 */
static int decode_last(mp3dec_t *before, struct bytes rest, mp3d_sample_t *samples,
                       mp3dec_frame_info_t *info)
{
    size_t count;

    if (before->header[0] != 0xff) {
        return 0;
    }
    for (count = 5; count < rest.count && count <= FRAME_BYTES_MAX; count++) {
        mp3dec_t decoder = *before;
        int decoded = mp3dec_decode_frame(&decoder, rest.at, (int)count, samples, info);
        if (decoded > 0 && info->frame_offset == 0 && (size_t)info->frame_bytes == count) {
            return decoded;
        }
    }
    return 0;
}

static int decode(struct bytes bytes, FILE *out, struct sum *sum)
{
    mp3dec_t decoder;
    mp3dec_frame_info_t info;
    mp3d_sample_t samples[MINIMP3_MAX_SAMPLES_PER_FRAME];

    mp3dec_init(&decoder);
    for (;;) {
        mp3dec_t before = decoder;
        int rest = bytes.count > INT32_MAX ? INT32_MAX : (int)bytes.count;
        int count = mp3dec_decode_frame(&decoder, bytes.at, rest, samples, &info);
        if (info.frame_bytes == 0) {
            return 1;
        }
        if (count == 0 && info.frame_bytes == rest) {
            count = decode_last(&before, bytes, samples, &info);
            info.frame_bytes = rest;
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
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0) {
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
    skip_info_frame(&bytes);
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
    printf("{\"hz\": %d, \"channels\": %d, \"frames\": %lu, \"empty_frames\": %lu, \"samples\": "
           "%llu}\n",
           sum.hz, sum.channels, sum.frames, sum.empty_frames, sum.samples);
    return 0;
}
