/*
 * What minimp3 itself finds and decodes: the oracle of tests/minimp3.rs, which compiles and runs
 * it.
 *
 *   oracle whole FILE          decodes FILE without its tags from one buffer; per frame
 *                              "offset bytes reset samples"
 *   oracle pieces FILE LIST    decodes only the pieces "offset bytes" of LIST, each on its own
 *
 * Both end with "pcm SAMPLES HASH". `reset` is 1 where the decoder forgot its state.
 */
#define MINIMP3_IMPLEMENTATION
#define MINIMP3_NO_SIMD
#include "minimp3_ex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long hash = 14695981039346656037ULL;
static long total_samples;

static void hash_pcm(const mp3d_sample_t *pcm, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        hash = (hash ^ (unsigned short)pcm[i]) * 1099511628211ULL;
    }
    total_samples += count;
}

/* The condition under which mp3dec_decode_frame stays in sync, as it stands there. */
static int stays_in_sync(const mp3dec_t *dec, const unsigned char *mp3, int bytes)
{
    int size;
    if (!(bytes > 4 && dec->header[0] == 0xff && hdr_compare(dec->header, mp3))) {
        return 0;
    }
    size = hdr_frame_bytes(mp3, dec->free_format_bytes) + hdr_padding(mp3);
    return size == bytes || (size + HDR_SIZE <= bytes && hdr_compare(mp3, mp3 + size));
}

/* Whether its search would find a frame. */
static int finds_frame(const unsigned char *mp3, int bytes)
{
    int free_format = 0, size = 0;
    int at = mp3d_find_frame(mp3, bytes, &free_format, &size);
    return size != 0 && at + size <= bytes;
}

static void decode_whole(mp3dec_t *dec, const unsigned char *file, size_t file_bytes)
{
    static mp3d_sample_t pcm[MINIMP3_MAX_SAMPLES_PER_FRAME];
    const unsigned char *data = file;
    int at = 0, bytes, start;
    mp3dec_skip_id3(&data, &file_bytes);
    bytes = (int)file_bytes;
    start = (int)(data - file);
    for (;;) {
        mp3dec_frame_info_t info;
        int in_sync = stays_in_sync(dec, data + at, bytes - at);
        int samples;
        if (!in_sync && !finds_frame(data + at, bytes - at)) {
            return;
        }
        samples = mp3dec_decode_frame(dec, data + at, bytes - at, pcm, &info);
        printf("%d %d %d %d\n", start + at + info.frame_offset,
               info.frame_bytes - info.frame_offset, !in_sync, samples);
        hash_pcm(pcm, samples * info.channels);
        at += info.frame_bytes;
    }
}

static void decode_pieces(mp3dec_t *dec, const unsigned char *data, int bytes, FILE *list)
{
    static mp3d_sample_t pcm[MINIMP3_MAX_SAMPLES_PER_FRAME];
    int offset, length;
    while (fscanf(list, "%d %d", &offset, &length) == 2) {
        mp3dec_frame_info_t info;
        int samples;
        if (offset < 0 || length < 0 || offset + length > bytes) {
            exit(3);
        }
        samples = mp3dec_decode_frame(dec, data + offset, length, pcm, &info);
        hash_pcm(pcm, samples * info.channels);
    }
}

int main(int argc, char **argv)
{
    static mp3dec_t dec;
    unsigned char *data;
    long bytes;
    FILE *file = argc >= 3 ? fopen(argv[2], "rb") : NULL;
    if (!file || fseek(file, 0, SEEK_END) || (bytes = ftell(file)) < 0) {
        return 2;
    }
    rewind(file);
    data = calloc(1, (size_t)bytes + 16);
    if (!data || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        return 2;
    }
    fclose(file);
    mp3dec_init(&dec);
    if (strcmp(argv[1], "whole") == 0) {
        decode_whole(&dec, data, (size_t)bytes);
    } else {
        FILE *list = argc >= 4 ? fopen(argv[3], "r") : NULL;
        if (!list) {
            return 2;
        }
        decode_pieces(&dec, data, (int)bytes, list);
        fclose(list);
    }
    printf("pcm %ld %llx\n", total_samples, hash);
    free(data);
    return 0;
}
