/* Decoding a file on a core and comparing each sample with the reference. Called by main.c. */
#include "decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../test.h"
#include "echo.h"
#include "mp3_frames.h"

/* Slots: frames lie in those of the 68 KiB class, the fill ring takes from the 20 KiB class. */
enum {
    PCM_CLASS = 1,
    MP3_CLASS = 2,
    FILL = 32
};

struct stream {
    uint8_t *bytes;
    size_t count;
    size_t at;
    uint8_t *pcm;
    size_t pcm_bytes;
    size_t pcm_at;
    uint32_t sent;
    uint32_t returned;
    uint32_t received;
    uint32_t empty;
    /* Where the next frame goes: frames of one slot are parts of it. */
    uint32_t slot;
    uint32_t offset;
};

/* The whole file; the caller frees it. */
static uint8_t *read_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long size = 0;

    CHECK(file != NULL);
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0) {
        rewind(file);
        bytes = malloc((size_t)size);
        CHECK_EQUAL(fread(bytes, 1, (size_t)size, file), size);
        fclose(file);
    }
    *count = (size_t)size;
    return bytes;
}

static int decode_reference(struct stream *stream, struct agent *agent, const char *path,
                            const char *reference)
{
    char *out = NULL;
    char *command = NULL;
    int status;

    if (asprintf(&out, "%s/reference.pcm", agent->folder) < 0 ||
        asprintf(&command, "'%s' '%s' '%s'", reference, path, out) < 0) {
        abort();
    }
    fflush(NULL);
    status = system(command);
    CHECK_EQUAL(status, 0);
    if (status == 0) {
        stream->pcm = read_file(out, &stream->pcm_bytes);
    }
    remove(out);
    free(command);
    free(out);
    return status == 0 && stream->pcm != NULL;
}

/* Puts the next frame into the pool and sends it; 0: there is none. */
static int send_frame(struct agent *agent, struct stream *stream)
{
    struct linux_side *side = &agent->side;
    size_t bytes = mp3_frame_bytes(stream->bytes + stream->at, stream->count - stream->at);
    struct descriptor part;

    if (bytes == 0) {
        return 0;
    }
    if (stream->offset + bytes > side->slot_class[MP3_CLASS].slot_bytes) {
        /*
         * Far more slots than the window has frames: the first is free again before the last is
         * full.
         */
        stream->slot = (stream->slot + 1) % side->slot_class[MP3_CLASS].slot_count;
        stream->offset = 256;
    }
    part = linux_slot(side, MP3_CLASS, stream->slot, (uint32_t)bytes);
    part.offset = stream->offset;
    memcpy(agent->region + linux_slot_offset(side, part.place) + part.offset,
           stream->bytes + stream->at, bytes);
    linux_push(side, MP3, part);
    stream->offset += (uint32_t)bytes;
    stream->at += bytes;
    stream->sent++;
    return 1;
}

/* Compares one buffer of samples: network order there, little endian in the reference. */
static void compare(struct agent *agent, struct stream *stream, struct descriptor got)
{
    const uint8_t *slot = agent->region + linux_slot_offset(&agent->side, got.place);
    const uint8_t *samples = slot + got.offset;
    uint32_t info[4];
    uint32_t i;
    uint32_t different = 0;

    memcpy(info, slot, sizeof info);
    CHECK_EQUAL(info[3], stream->received);
    CHECK_EQUAL(info[2] * info[1] * 2, got.length);
    CHECK(stream->pcm_at + got.length <= stream->pcm_bytes);
    for (i = 0; i + 1 < got.length && stream->pcm_at + got.length <= stream->pcm_bytes; i += 2) {
        different += samples[i] != stream->pcm[stream->pcm_at + i + 1];
        different += samples[i + 1] != stream->pcm[stream->pcm_at + i];
    }
    CHECK_EQUAL(different, 0);
    stream->pcm_at += got.length;
    stream->received++;
    stream->empty += got.length == 0;
}

/* Takes one buffer of samples and gives its slot back to the fill ring. */
static int receive_samples(struct agent *agent, struct stream *stream)
{
    struct descriptor got;
    int taken = take(agent, PCM, &got);

    CHECK(taken);
    if (taken) {
        compare(agent, stream, got);
        got.generation++;
        got.references = agent->side.ports;
        got.offset = 256;
        got.length = agent->side.slot_class[PCM_CLASS].slot_bytes - 256;
        memset(agent->region + linux_slot_offset(&agent->side, got.place), 0, 16);
        linux_push(&agent->side, PCM, got);
    }
    return taken;
}

static void pump(struct agent *agent, struct stream *stream)
{
    struct descriptor back;
    int more = 1;

    while ((more || stream->received < stream->sent) && test_sum.broken_checks == 0) {
        while (linux_take(&agent->side, MP3, &back)) {
            stream->returned++;
        }
        while (more && stream->sent - stream->returned < agent->side.capacity) {
            more = send_frame(agent, stream);
        }
        agent_ring(agent);
        if (stream->received < stream->sent && !receive_samples(agent, stream)) {
            return;
        }
    }
    while (stream->returned < stream->sent && take(agent, MP3, &back)) {
        stream->returned++;
    }
}

void decode_file(struct agent *agent, const char *path, const char *reference)
{
    struct stream stream;
    uint32_t i;

    memset(&stream, 0, sizeof stream);
    stream.offset = 256;
    stream.bytes = read_file(path, &stream.count);
    if (stream.bytes != NULL && decode_reference(&stream, agent, path, reference)) {
        stream.at = mp3_first(stream.bytes, stream.count);
        for (i = 0; i < FILL; i++) {
            linux_push(&agent->side, PCM,
                       linux_slot(&agent->side, PCM_CLASS, i,
                                  agent->side.slot_class[PCM_CLASS].slot_bytes - 256));
        }
        pump(agent, &stream);
        CHECK(stream.sent > 10);
        CHECK_EQUAL(stream.received, stream.sent);
        CHECK_EQUAL(stream.returned, stream.sent);
        CHECK_EQUAL(stream.pcm_at, stream.pcm_bytes);
        printf("  %s: %u frames, %zu bytes of samples, %u empty\n", path, stream.sent,
               stream.pcm_at, stream.empty);
    }
    free(stream.bytes);
    free(stream.pcm);
}
