/*
 * Named message queues, between tasks of this core and processes of Linux: those of
 * `hythe_mq_open()` there, found by the same names. Up to 64 messages of up to 64 KiB, by priority
 * (0 to 31, the largest first) and age.
 *
 * As mq_open(3) and so on, with the differences of hythe_sem.h, and these: O_NONBLOCK is a flag of
 * the struct, not of a description that several share; and a notification is a callback that runs
 * in the task that calls a function of the queue next, or hythe_mq_dispatch().
 *
 * Each message is copied once from the caller's memory, and once into it. A message stays in the
 * queue until this core has told the agent that it was copied out: if the task or the core ends
 * before, it goes back to its place, and is received by the next one. If the core or its agent
 * ends just behind that copy, the message may come a second time; none is lost.
 *
 * Messages of more than HYTHE_SERVICES_SMALL bytes are sent over the endpoint
 * HYTHE_MESSAGES_ENDPOINT.
 */
#ifndef HYTHE_MQ_H
#define HYTHE_MQ_H

#include "hythe_services.h"

/* Numbers, all of them: as struct mq_attr. */
struct hythe_mq_attr {
    /* HYTHE_O_NONBLOCK or 0. */
    uint32_t flags;
    uint32_t maxmsg;
    uint32_t msgsize;
    uint32_t curmsgs;
};

struct hythe_mq {
    struct hythe_object object;
    /* Private. */
    struct hythe_mq_attr attr;
    void (*notify)(void *argument);
    void *argument;
};

/*
 * Opens the queue for HYTHE_O_RDONLY, HYTHE_O_WRONLY or HYTHE_O_RDWR; with HYTHE_O_CREAT it is
 * made if there is none, with `mode` and `attr->maxmsg` messages (1 to 64) of `attr->msgsize`
 * bytes (1 to 65536) at most; NULL: 10 of 8192.
 *
 * As hythe_sem_open(); -HYTHE_EINVAL: `attr`, too.
 */
int hythe_mq_open(struct hythe_services *services, const char *name, uint32_t flags, uint32_t mode,
                  const struct hythe_mq_attr *attr, struct hythe_mq *mq);

static inline int hythe_mq_close(struct hythe_mq *mq)
{
    return hythe_object_close(&mq->object, HYTHE_MQ_CLOSE);
}

/* Takes the name away; it goes, with its messages, when nobody has it open. */
static inline int hythe_mq_unlink(struct hythe_services *services, const char *name)
{
    uint32_t values[3] = {0, 0, 0};

    return hythe_object_open(services, NULL, HYTHE_MQ_UNLINK, name, 0, values);
}

/*
 * Sends a copy, waiting for a place up to `timeout_ms`; with 0 or HYTHE_O_NONBLOCK it does not
 * wait.
 *
 * 0: it is accepted. -HYTHE_ETIMEDOUT; -HYTHE_EAGAIN: the queue is full, and it does not wait;
 * -HYTHE_EMSGSIZE: too long for the queue, or the program has no endpoint for it; -HYTHE_EINVAL:
 * no priority; -HYTHE_EBADF: not opened for that; -HYTHE_ENOSPC: the pool has no slot.
 */
int hythe_mq_timedsend(struct hythe_mq *mq, const void *message, uint32_t bytes, uint32_t priority,
                       uint32_t timeout_ms);

static inline int hythe_mq_send(struct hythe_mq *mq, const void *message, uint32_t bytes,
                                uint32_t priority)
{
    return hythe_mq_timedsend(mq, message, bytes, priority, HYTHE_FOREVER);
}

/*
 * Receives the message of the largest priority, of those the oldest, waiting for one up to
 * `timeout_ms`; with 0 or HYTHE_O_NONBLOCK it does not wait. `priority` may be NULL.
 *
 * Its length; -HYTHE_ETIMEDOUT; -HYTHE_EAGAIN: there is none, and it does not wait;
 * -HYTHE_EMSGSIZE: `capacity` is less than the queue's `msgsize`; -HYTHE_EBADF; -HYTHE_ENOBUFS: no
 * slot is free where this core sees it, or HYTHE_SERVICES_WAITS calls wait.
 */
int hythe_mq_timedreceive(struct hythe_mq *mq, void *buffer, uint32_t capacity, uint32_t *priority,
                          uint32_t timeout_ms);

static inline int hythe_mq_receive(struct hythe_mq *mq, void *buffer, uint32_t capacity,
                                   uint32_t *priority)
{
    return hythe_mq_timedreceive(mq, buffer, capacity, priority, HYTHE_FOREVER);
}

int hythe_mq_getattr(struct hythe_mq *mq, struct hythe_mq_attr *attr);

/* Sets HYTHE_O_NONBLOCK, or clears it. Never asks the agent. */
static inline void hythe_mq_setattr(struct hythe_mq *mq, const struct hythe_mq_attr *attr)
{
    mq->attr.flags = attr->flags & HYTHE_O_NONBLOCK;
}

/*
 * Has `callback` called once, when a message has come into the empty queue and no receiver waited;
 * NULL: not any more. It is called by the next function of this queue that the program calls,
 * before that returns.
 *
 * 0; -HYTHE_EBUSY: somebody is to be notified already, on either side.
 */
int hythe_mq_notify(struct hythe_mq *mq, void (*callback)(void *argument), void *argument);

/*
 * Waits for that up to `timeout_ms`. 0: the callback was called; -HYTHE_ETIMEDOUT; -HYTHE_EAGAIN
 * with 0; -HYTHE_EINVAL: nothing is registered.
 */
int hythe_mq_dispatch(struct hythe_mq *mq, uint32_t timeout_ms);

#endif
