/*
 * Segments by the library's functions, one method for each: what they return is the first word of
 * the result. An attachment is known by its place in a table. The task of methods.c calls these.
 */
#include "segments.h"

#include <string.h>

/* Longer than an agent takes on a loaded machine. */
#define CALL_MS 60000u

enum {
    GET = 20,
    ATTACH = 21,
    DETACH = 22,
    READ = 23,
    WRITE = 24,
    CONTROL = 25,
    CHECK = 26,
    REFUSE = 27
};

/* The argument or the space for the result is too short; no such attachment; outside of it. */
enum {
    TOO_SHORT = 1,
    NO_SUCH = 2,
    OUTSIDE = 3
};

static uint32_t word_at(const uint8_t *bytes, uint32_t index)
{
    uint32_t word;

    memcpy(&word, bytes + 4 * index, sizeof word);
    return word;
}

static void put_word(struct hythe_rpc_reply *reply, uint32_t word)
{
    memcpy(reply->result + reply->bytes, &word, sizeof word);
    reply->bytes += 4;
}

static int has(const struct hythe_rpc_request *request, const struct hythe_rpc_reply *reply,
               uint32_t words, uint32_t result_words)
{
    return request->argument_bytes >= 4 * words && reply->capacity >= 4 * result_words;
}

static struct hythe_shm *attached_at(struct segments *segments,
                                     const struct hythe_rpc_request *request)
{
    uint32_t place = word_at(request->argument, 0);

    return place < SEGMENTS_ATTACHED_MAX ? &segments->attached[place] : NULL;
}

static int get(void *context, const struct hythe_rpc_request *request,
               struct hythe_rpc_reply *reply)
{
    struct segments *segments = context;

    if (!has(request, reply, 3, 1)) {
        return TOO_SHORT;
    }
    put_word(reply, (uint32_t)hythe_shmget(
                        &segments->services, (int32_t)word_at(request->argument, 0),
                        word_at(request->argument, 1), word_at(request->argument, 2), CALL_MS));
    return 0;
}

static int attach(void *context, const struct hythe_rpc_request *request,
                  struct hythe_rpc_reply *reply)
{
    struct segments *segments = context;
    struct hythe_shm *shm = segments->attached;
    int result;

    if (!has(request, reply, 2, 5)) {
        return TOO_SHORT;
    }
    while (shm->services != NULL) {
        if (++shm == segments->attached + SEGMENTS_ATTACHED_MAX) {
            return NO_SUCH;
        }
    }
    result = hythe_shmat(&segments->services, (int32_t)word_at(request->argument, 0),
                         word_at(request->argument, 1), shm, CALL_MS);
    put_word(reply, (uint32_t)result);
    put_word(reply, (uint32_t)(shm - segments->attached));
    put_word(reply, (uint32_t)(uintptr_t)shm->address);
    put_word(reply, (uint32_t)((uint64_t)(uintptr_t)shm->address >> 32));
    put_word(reply, shm->bytes);
    return 0;
}

static int detach(void *context, const struct hythe_rpc_request *request,
                  struct hythe_rpc_reply *reply)
{
    struct hythe_shm *shm;

    if (!has(request, reply, 1, 1)) {
        return TOO_SHORT;
    }
    shm = attached_at(context, request);
    if (shm == NULL) {
        return NO_SUCH;
    }
    put_word(reply, (uint32_t)hythe_shmdt(shm, CALL_MS));
    return 0;
}

/* So many bytes of an attachment, from an offset on. */
static int read_bytes(void *context, const struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply)
{
    const struct hythe_shm *shm;
    uint32_t offset;
    uint32_t bytes;

    if (!has(request, reply, 3, 0)) {
        return TOO_SHORT;
    }
    shm = attached_at(context, request);
    offset = word_at(request->argument, 1);
    bytes = word_at(request->argument, 2);
    if (shm == NULL || shm->address == NULL) {
        return NO_SUCH;
    }
    if (hythe_shm_check(shm, shm->address + offset, bytes, HYTHE_SHM_RDONLY) != 0) {
        return OUTSIDE;
    }
    reply->bytes = bytes;
    if (bytes <= reply->capacity) {
        memcpy(reply->result, shm->address + offset, bytes);
    }
    return 0;
}

/* The bytes behind two words. */
static int write_bytes(void *context, const struct hythe_rpc_request *request,
                       struct hythe_rpc_reply *reply)
{
    const struct hythe_shm *shm;
    uint32_t bytes = request->argument_bytes - 8;
    uint32_t offset;

    if (!has(request, reply, 2, 0)) {
        return TOO_SHORT;
    }
    shm = attached_at(context, request);
    offset = word_at(request->argument, 1);
    if (shm == NULL || shm->address == NULL) {
        return NO_SUCH;
    }
    if (hythe_shm_check(shm, shm->address + offset, bytes, 0) != 0) {
        return OUTSIDE;
    }
    memcpy(shm->address + offset, request->argument + 8, bytes);
    return 0;
}

static int control(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    struct segments *segments = context;
    struct hythe_shmid status = {0};
    int command;

    if (!has(request, reply, 5, 1 + sizeof status / 4)) {
        return TOO_SHORT;
    }
    command = (int)word_at(request->argument, 1);
    status.uid = word_at(request->argument, 2);
    status.gid = word_at(request->argument, 3);
    status.mode = word_at(request->argument, 4);
    put_word(reply,
             (uint32_t)hythe_shmctl(&segments->services, (int32_t)word_at(request->argument, 0),
                                    command, &status, CALL_MS));
    memcpy(reply->result + reply->bytes, &status, sizeof status);
    reply->bytes += (uint32_t)sizeof status;
    return 0;
}

/* The range from the first byte plus an offset of 64 bits on, which may be negative. */
static int check(void *context, const struct hythe_rpc_request *request,
                 struct hythe_rpc_reply *reply)
{
    const struct hythe_shm *shm;
    uint64_t offset;

    if (!has(request, reply, 5, 1)) {
        return TOO_SHORT;
    }
    shm = attached_at(context, request);
    if (shm == NULL) {
        return NO_SUCH;
    }
    offset = (uint64_t)word_at(request->argument, 2) << 32 | word_at(request->argument, 1);
    put_word(reply, (uint32_t)hythe_shm_check(
                        shm, (const void *)((uintptr_t)shm->address + (uintptr_t)offset),
                        word_at(request->argument, 3), word_at(request->argument, 4)));
    return 0;
}

static int refuse(void *context, const struct hythe_rpc_request *request,
                  struct hythe_rpc_reply *reply)
{
    struct segments *segments = context;

    if (!has(request, reply, 1, 0)) {
        return TOO_SHORT;
    }
    segments->refuses = word_at(request->argument, 0);
    return 0;
}

int segments_make(void *context, int32_t key, uint32_t size, uint32_t flags, uint32_t timeout_ms)
{
    struct segments *segments = context;

    if (segments->refuses != 0) {
        return -HYTHE_EACCES;
    }
    return hythe_shmget(&segments->services, key, size, flags, timeout_ms);
}

void segments_methods(struct segments *segments, struct hythe_rpc_method *table)
{
    const struct hythe_rpc_method methods[SEGMENTS_METHODS] = {
        {GET, get, segments},         {ATTACH, attach, segments},     {DETACH, detach, segments},
        {READ, read_bytes, segments}, {WRITE, write_bytes, segments}, {CONTROL, control, segments},
        {CHECK, check, segments},     {REFUSE, refuse, segments},
    };

    memcpy(table, methods, sizeof methods);
}
