/*
 * host-player h264|mp3: decodes on Linux what the program `player` decodes on a core, with the same
 * decoders (rtos/codecs). `hythe play --method linux` runs one for picture and one for sound, and
 * kills it when it is not wanted any more.
 *
 * On standard input messages: their length in four bytes, little endian, and an access unit behind
 * its number, or an MP3 frame. On standard output the same with six words and a picture or samples
 * (apps/player/README.md), at least one for each that came. Ends at the end of its input; never
 * waits for anything but its pipes.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"
#include "h264.h"

/* As much as a slot of a board takes: both ways. */
#define UNIT_BYTES_MAX (1u << 20)
#define PICTURE_BYTES_MAX (1u << 20)
#define LENGTH_BYTES 4u

/* A message that leaves: length, words, and up to three parts. */
enum {
    INFO_WORDS = H264_INFO_WORDS,
    PARTS_MAX = 3
};

/* Words of a message, and what is behind them. */
struct message {
    uint32_t front[1 + INFO_WORDS];
    struct iovec parts[1 + PARTS_MAX];
    int count;
    uint32_t bytes;
};

static uint8_t unit[UNIT_BYTES_MAX];
/* A picture that is cut out of a larger one. */
static uint8_t cropped[PICTURE_BYTES_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "host-player: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The player has gone, and wants nothing any more. */
static void end_if_unwanted(void)
{
    if (errno == EPIPE) {
        exit(0);
    }
}

/* 0: the input ended in front of the first byte. */
static int read_all(uint8_t *to, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        ssize_t got = read(STDIN_FILENO, to + at, bytes - at);
        if (got == 0 && at == 0) {
            return 0;
        }
        if (got == 0) {
            /* The player ended in the middle of a message. */
            exit(0);
        }
        if (got < 0 && errno != EINTR) {
            fail("cannot read");
        }
        at += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

/* Returns the bytes of the next message; 0: there is none. */
static uint32_t read_message(uint32_t room)
{
    uint8_t length[LENGTH_BYTES];
    uint32_t bytes;

    if (!read_all(length, sizeof length)) {
        return 0;
    }
    bytes = length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 |
            (uint32_t)length[3] << 24;
    if (bytes == 0 || bytes > room) {
        fprintf(stderr, "host-player: a message of %lu bytes; 1 to %lu can be\n",
                (unsigned long)bytes, (unsigned long)room);
        exit(1);
    }
    return read_all(unit, bytes) ? bytes : 0;
}

static void add_part(struct message *message, const void *from, size_t bytes)
{
    message->parts[message->count].iov_base = (void *)(uintptr_t)from;
    message->parts[message->count].iov_len = bytes;
    message->count++;
    message->bytes += (uint32_t)bytes;
}

static void begin_message(struct message *message, const uint32_t *info)
{
    message->count = 0;
    message->bytes = 0;
    memcpy(&message->front[1], info, INFO_WORDS * sizeof *info);
    add_part(message, message->front, sizeof message->front);
}

static void write_message(struct message *message)
{
    struct iovec *part = message->parts;
    int count = message->count;

    message->front[0] = message->bytes - LENGTH_BYTES;
    while (count > 0) {
        ssize_t written = writev(STDOUT_FILENO, part, count);
        if (written < 0 && errno != EINTR) {
            end_if_unwanted();
            fail("cannot write");
        }
        written = written > 0 ? written : 0;
        while (count > 0 && (size_t)written >= part->iov_len) {
            written -= (ssize_t)part->iov_len;
            part++;
            count--;
        }
        if (count > 0) {
            part->iov_base = (uint8_t *)part->iov_base + written;
            part->iov_len -= (size_t)written;
        }
    }
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Straight out of the decoder's reference pictures, unless there are gaps. */
static void take(void *context, const struct h264_picture *picture, uint32_t *info)
{
    struct message message;
    int i;

    (void)context;
    if (picture != NULL && picture->bytes > PICTURE_BYTES_MAX) {
        info[H264_INFO_STATUS] = H264_TOO_LARGE;
        picture = NULL;
    }
    begin_message(&message, info);
    if (picture != NULL && picture->planes[0].width == picture->planes[0].stride) {
        for (i = 0; i < PARTS_MAX; i++) {
            const struct h264_plane *plane = &picture->planes[i];
            add_part(&message, plane->from, (size_t)plane->width * plane->height);
        }
    } else if (picture != NULL) {
        h264_copy(cropped, picture);
        add_part(&message, cropped, picture->bytes);
    }
    write_message(&message);
}

static void decode_units(void)
{
    static struct h264 h264;
    const struct h264_sink sink = {take, NULL};
    uint32_t bytes;

    h264.now_us = now_us;
    while ((bytes = read_message(sizeof unit)) != 0) {
        h264_decode(&h264, 1, unit, bytes, &sink);
    }
}

static void decode_frames(void)
{
    static struct frames frames;
    static mp3d_sample_t samples[MINIMP3_MAX_SAMPLES_PER_FRAME];
    uint32_t info[INFO_WORDS] = {0};
    struct message message;
    uint32_t bytes;

    frames_start(&frames, 1);
    while ((bytes = read_message(FRAMES_BYTES_MAX)) != 0) {
        const struct frame frame = {unit, bytes, frames_next(&frames)};
        bytes = frames_decode(&frames, &frame, samples, info);
        begin_message(&message, info);
        add_part(&message, samples, bytes);
        write_message(&message);
    }
}

int main(int argc, char **argv)
{
    /* A write says it, too. */
    signal(SIGPIPE, SIG_IGN);
    if (argc == 2 && strcmp(argv[1], "h264") == 0) {
        decode_units();
    } else if (argc == 2 && strcmp(argv[1], "mp3") == 0) {
        decode_frames();
    } else {
        fprintf(stderr, "usage: %s h264|mp3\n", argv[0]);
        return 2;
    }
    return 0;
}
