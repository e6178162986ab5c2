/*
 * Message queues (spec/services.md): messages go to the agent and come from it, one copy each way.
 * Sending never waits at the agent; it waits for a place by a call of its own, so that no large
 * slot is occupied meanwhile. Never allocates.
 */
#include "hythe_mq.h"

#include "services.h"

int hythe_mq_open(struct hythe_services *services, const char *name, uint32_t flags, uint32_t mode,
                  const struct hythe_mq_attr *attr, struct hythe_mq *mq)
{
    uint32_t values[3] = {0, 0, 0};
    int result;

    values[0] = mode;
    if (attr != NULL) {
        values[1] = attr->maxmsg;
        values[2] = attr->msgsize;
    }
    result = hythe_object_open(services, &mq->object, HYTHE_MQ_OPEN, name,
                               flags & ~HYTHE_O_NONBLOCK, values);
    mq->attr.flags = flags & HYTHE_O_NONBLOCK;
    mq->attr.maxmsg = values[1];
    mq->attr.msgsize = values[2];
    mq->notify = NULL;
    return result;
}

/* Calls, and behind an answer that says so the callback. */
static int ask(struct hythe_mq *mq, struct hythe_services_call *call, uint32_t method,
               uint32_t timeout_ms)
{
    int result = hythe_object_ask(&mq->object, call, method, timeout_ms);

    if (result >= 0 && call->words[HYTHE_CALL_VALUE + 4] != 0 && mq->notify != NULL) {
        void (*notify)(void *) = mq->notify;
        /* It may register anew. */
        mq->notify = NULL;
        notify(mq->argument);
    }
    return result;
}

static uint32_t bound(const struct hythe_mq *mq, uint32_t timeout_ms)
{
    return mq->attr.flags != 0 ? 0 : timeout_ms;
}

int hythe_mq_timedsend(struct hythe_mq *mq, const void *message, uint32_t bytes, uint32_t priority,
                       uint32_t timeout_ms)
{
    uint32_t left_ms = bound(mq, timeout_ms);
    int result;

    if (bytes > mq->attr.msgsize) {
        return -HYTHE_EMSGSIZE;
    }
    for (;;) {
        struct hythe_services_call call = {0};
        uint32_t said_ms;

        call.words[HYTHE_CALL_ARGUMENT + 1] = priority;
        call.payload = message;
        call.payload_bytes = bytes;
        result = ask(mq, &call, HYTHE_MQ_SEND, 0);
        if (result != -HYTHE_EAGAIN || left_ms == 0) {
            return result;
        }
        /* Another may take the place: the agent says how long there is still to wait. */
        result = hythe_object_call(&mq->object, HYTHE_MQ_WAIT_SPACE, left_ms, &said_ms);
        if (result < 0) {
            return result;
        }
        left_ms = said_ms < left_ms ? said_ms : left_ms - 1;
        if (left_ms == 0) {
            return -HYTHE_ETIMEDOUT;
        }
    }
}

int hythe_mq_timedreceive(struct hythe_mq *mq, void *buffer, uint32_t capacity, uint32_t *priority,
                          uint32_t timeout_ms)
{
    struct hythe_services_call call = {0};
    int result;

    call.words[HYTHE_CALL_ARGUMENT + 1] = capacity;
    call.result = buffer;
    call.result_bytes = capacity;
    result = ask(mq, &call, HYTHE_MQ_RECEIVE, bound(mq, timeout_ms));
    if (result < 0) {
        return result;
    }
    if (priority != NULL) {
        *priority = call.words[HYTHE_CALL_VALUE + 1];
    }
    return (int)call.result_bytes;
}

int hythe_mq_getattr(struct hythe_mq *mq, struct hythe_mq_attr *attr)
{
    struct hythe_services_call call = {0};
    int result = ask(mq, &call, HYTHE_MQ_ATTRIBUTES, 0);

    *attr = mq->attr;
    attr->curmsgs = call.words[HYTHE_CALL_VALUE];
    return result;
}

int hythe_mq_notify(struct hythe_mq *mq, void (*callback)(void *argument), void *argument)
{
    struct hythe_services_call call = {0};
    int result;

    call.words[HYTHE_CALL_ARGUMENT + 1] = callback != NULL;
    result = ask(mq, &call, HYTHE_MQ_NOTIFY, 0);
    if (result == 0) {
        mq->notify = callback;
        mq->argument = argument;
    }
    return result;
}

int hythe_mq_dispatch(struct hythe_mq *mq, uint32_t timeout_ms)
{
    struct hythe_services_call call = {0};

    return ask(mq, &call, HYTHE_MQ_NOTICE, timeout_ms);
}
