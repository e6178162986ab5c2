/*
 * Semaphores and message queues by the library's functions, one method for each kind of call: what
 * they return is the first word of the result. Handles are known by their places in tables. The
 * task of methods.c calls these.
 */
#include "objects.h"

#include <string.h>

enum {
    SEM_OPEN = 40,
    SEM_CALL = 41,
    UNLINK = 42,
    MQ_OPEN = 43,
    MQ_SEND = 44,
    MQ_RECEIVE = 45,
    MQ_CALL = 46
};

/* What SEM_CALL and MQ_CALL do. */
enum {
    CLOSE = 0,
    WAIT = 1,
    POST = 2,
    VALUE = 3,
    RECOVER = 4,
    GETATTR = 5,
    SETATTR = 6,
    NOTIFY = 7,
    UNNOTIFY = 8,
    DISPATCH = 9
};

/* The argument or the space for the result is too short; no free place. */
enum {
    TOO_SHORT = 1,
    NO_PLACE = 2
};

#define NAME_BYTES 260

/* The argument, word by word, and the rest as a name. */
struct reader {
    const struct hythe_rpc_request *request;
    uint32_t at;
};

static uint32_t next_word(struct reader *reader)
{
    uint32_t word = 0;

    if (reader->request->argument_bytes - reader->at >= sizeof word) {
        memcpy(&word, reader->request->argument + reader->at, sizeof word);
        reader->at += 4;
    }
    return word;
}

static void read_name(struct reader *reader, char name[NAME_BYTES])
{
    uint32_t bytes = reader->request->argument_bytes - reader->at;

    bytes = bytes < NAME_BYTES ? bytes : NAME_BYTES - 1;
    memcpy(name, reader->request->argument + reader->at, bytes);
    name[bytes] = '\0';
}

static void put_word(struct hythe_rpc_reply *reply, uint32_t word)
{
    memcpy(reply->result + reply->bytes, &word, sizeof word);
    reply->bytes += 4;
}

static int is_long(const struct hythe_rpc_request *request, const struct hythe_rpc_reply *reply,
                   uint32_t words, uint32_t result_words)
{
    return request->argument_bytes >= 4 * words && reply->capacity >= 4 * result_words;
}

static int sem_open(void *context, const struct hythe_rpc_request *request,
                    struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    struct hythe_sem *sem = objects->sems;
    char name[NAME_BYTES];
    uint32_t flags = next_word(&reader);
    uint32_t mode = next_word(&reader);
    uint32_t value = next_word(&reader);

    if (!is_long(request, reply, 3, 2)) {
        return TOO_SHORT;
    }
    while (sem->object.services != NULL) {
        if (++sem == objects->sems + OBJECTS_OPEN_MAX) {
            return NO_PLACE;
        }
    }
    read_name(&reader, name);
    put_word(reply, (uint32_t)hythe_sem_open(objects->services, name, flags, mode, value, sem));
    put_word(reply, (uint32_t)(sem - objects->sems));
    return 0;
}

static int sem_call(void *context, const struct hythe_rpc_request *request,
                    struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    struct hythe_sem *sem = &objects->sems[next_word(&reader) % OBJECTS_OPEN_MAX];
    uint32_t what = next_word(&reader);
    uint32_t timeout_ms = next_word(&reader);
    uint32_t value = 0;
    int result = -HYTHE_ENOSYS;

    if (!is_long(request, reply, 3, 2)) {
        return TOO_SHORT;
    }
    switch (what) {
    case CLOSE:
        result = hythe_sem_close(sem);
        break;
    case WAIT:
        result = hythe_sem_timedwait(sem, timeout_ms);
        break;
    case POST:
        result = hythe_sem_post(sem);
        break;
    case VALUE:
        result = hythe_sem_getvalue(sem, &value);
        break;
    case RECOVER:
        result = hythe_sem_recover(sem, &value);
        break;
    default:
        break;
    }
    put_word(reply, (uint32_t)result);
    put_word(reply, value);
    return 0;
}

static int unlink_name(void *context, const struct hythe_rpc_request *request,
                       struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    uint32_t is_queue = next_word(&reader);
    char name[NAME_BYTES];

    if (!is_long(request, reply, 1, 1)) {
        return TOO_SHORT;
    }
    read_name(&reader, name);
    put_word(reply, (uint32_t)(is_queue ? hythe_mq_unlink(objects->services, name)
                                        : hythe_sem_unlink(objects->services, name)));
    return 0;
}

static int mq_open(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    struct hythe_mq *mq = objects->queues;
    struct hythe_mq_attr attr = {0};
    char name[NAME_BYTES];
    uint32_t flags = next_word(&reader);
    uint32_t mode = next_word(&reader);

    attr.maxmsg = next_word(&reader);
    attr.msgsize = next_word(&reader);
    if (!is_long(request, reply, 4, 4)) {
        return TOO_SHORT;
    }
    while (mq->object.services != NULL) {
        if (++mq == objects->queues + OBJECTS_OPEN_MAX) {
            return NO_PLACE;
        }
    }
    read_name(&reader, name);
    put_word(reply, (uint32_t)hythe_mq_open(objects->services, name, flags, mode, &attr, mq));
    put_word(reply, (uint32_t)(mq - objects->queues));
    put_word(reply, mq->attr.maxmsg);
    put_word(reply, mq->attr.msgsize);
    return 0;
}

/* A message of so many bytes, made from a seed. */
static int mq_send(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    struct hythe_mq *mq = &objects->queues[next_word(&reader) % OBJECTS_OPEN_MAX];
    uint32_t priority = next_word(&reader);
    uint32_t timeout_ms = next_word(&reader);
    uint32_t bytes = next_word(&reader);
    uint32_t seed = next_word(&reader);
    uint32_t i;

    if (!is_long(request, reply, 5, 1)) {
        return TOO_SHORT;
    }
    for (i = 0; i < bytes && i < OBJECTS_BYTES_MAX; i++) {
        objects->message[i] = (uint8_t)(seed + i * 7 + (i >> 8));
    }
    put_word(reply,
             (uint32_t)hythe_mq_timedsend(mq, objects->message, bytes, priority, timeout_ms));
    return 0;
}

/* Its length, its priority, and a hash of its bytes. */
static int mq_receive(void *context, const struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    struct hythe_mq *mq = &objects->queues[next_word(&reader) % OBJECTS_OPEN_MAX];
    uint32_t capacity = next_word(&reader);
    uint32_t timeout_ms = next_word(&reader);
    uint32_t priority = 0;
    uint32_t hash = 0x811C9DC5u;
    int result;
    int i;

    if (!is_long(request, reply, 3, 3) || capacity > OBJECTS_BYTES_MAX) {
        return TOO_SHORT;
    }
    result = hythe_mq_timedreceive(mq, objects->message, capacity, &priority, timeout_ms);
    for (i = 0; i < result; i++) {
        hash = (hash ^ objects->message[i]) * 0x01000193u;
    }
    put_word(reply, (uint32_t)result);
    put_word(reply, priority);
    put_word(reply, hash);
    return 0;
}

static void note(void *context)
{
    struct objects *objects = context;

    objects->notified++;
}

static int mq_call(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    struct objects *objects = context;
    struct reader reader = {request, 0};
    struct hythe_mq *mq = &objects->queues[next_word(&reader) % OBJECTS_OPEN_MAX];
    uint32_t what = next_word(&reader);
    struct hythe_mq_attr attr = {0};
    int result = 0;

    attr.flags = next_word(&reader);
    if (!is_long(request, reply, 3, 6)) {
        return TOO_SHORT;
    }
    switch (what) {
    case CLOSE:
        result = hythe_mq_close(mq);
        break;
    case GETATTR:
        result = hythe_mq_getattr(mq, &attr);
        break;
    case SETATTR:
        hythe_mq_setattr(mq, &attr);
        break;
    case NOTIFY:
    case UNNOTIFY:
        result = hythe_mq_notify(mq, what == NOTIFY ? note : NULL, objects);
        break;
    case DISPATCH:
        result = hythe_mq_dispatch(mq, attr.flags);
        break;
    default:
        result = -HYTHE_ENOSYS;
        break;
    }
    put_word(reply, (uint32_t)result);
    put_word(reply, attr.flags);
    put_word(reply, attr.maxmsg);
    put_word(reply, attr.msgsize);
    put_word(reply, attr.curmsgs);
    put_word(reply, objects->notified);
    return 0;
}

void objects_methods(struct objects *objects, struct hythe_rpc_method *table)
{
    const struct hythe_rpc_method methods[OBJECTS_METHODS] = {
        {SEM_OPEN, sem_open, objects},  {SEM_CALL, sem_call, objects},
        {UNLINK, unlink_name, objects}, {MQ_OPEN, mq_open, objects},
        {MQ_SEND, mq_send, objects},    {MQ_RECEIVE, mq_receive, objects},
        {MQ_CALL, mq_call, objects},
    };

    memcpy(table, methods, sizeof methods);
}
