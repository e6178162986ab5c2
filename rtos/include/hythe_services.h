/*
 * What this core asks its Linux agent for (spec/services.md, "Services for a core"): segments
 * (hythe_shm.h), semaphores (hythe_sem.h) and message queues (hythe_mq.h). A program that asks
 * offers the endpoint HYTHE_SERVICES_ENDPOINT, of direction HYTHE_FROM_CORE, kind
 * HYTHE_KIND_REQUESTS, type HYTHE_SERVICES_TYPE and HYTHE_SERVICES_BYTES, and starts `struct
 * hythe_services` over it. The agent serves it from the core's start on.
 *
 * Functions of services return 0 or more, or a negative error number of Linux, the same on any
 * core: -HYTHE_ENOENT. Some of them are about the call, not about what was asked:
 *
 * -HYTHE_ETIMEDOUT: no answer within the time; whether it was done is not known.
 * -HYTHE_ENOTCONN: no agent, or one that does not serve this program.
 * -HYTHE_ECONNRESET: the agent has left meanwhile; whether it was done is not known.
 * -HYTHE_ENOBUFS: as many calls as there are `requests` are open.
 * -HYTHE_EPROTO: what came is no answer; counted as a violation.
 * -HYTHE_EIO: the agent could not answer.
 *
 * All of them may be called from several tasks (and cores) at once, never from an interrupt, and
 * block up to `timeout_ms`, at most 2^32 - 2. Linked only into programs that use them.
 */
#ifndef HYTHE_SERVICES_H
#define HYTHE_SERVICES_H

#include "hythe_rt.h"

/* Of the endpoint, and of the one for messages of more than HYTHE_SERVICES_SMALL bytes. */
#define HYTHE_SERVICES_ENDPOINT "core/services"
#define HYTHE_MESSAGES_ENDPOINT "core/messages"
/* FNV-1a of "hythe.services/1": an agent of another version does not serve it. */
#define HYTHE_SERVICES_TYPE 0x1B7098ADu
/* Requests are small; a reply may carry a header and 64 KiB, as may a request with a message. */
#define HYTHE_SERVICES_BYTES 65568u
#define HYTHE_SERVICES_SMALL 992u
/* Calls of a core that may wait at once; one more is refused with -HYTHE_ENOBUFS. */
#define HYTHE_SERVICES_WAITS 20u
/* How long a call that does not wait may take, unless the program says otherwise. */
#define HYTHE_SERVICES_TIMEOUT_MS 5000u

enum hythe_errno {
    HYTHE_EPERM = 1,
    HYTHE_ENOENT = 2,
    HYTHE_EIO = 5,
    HYTHE_EBADF = 9,
    HYTHE_EAGAIN = 11,
    HYTHE_ENOMEM = 12,
    HYTHE_EACCES = 13,
    HYTHE_EFAULT = 14,
    HYTHE_EBUSY = 16,
    HYTHE_EEXIST = 17,
    HYTHE_EINVAL = 22,
    HYTHE_ENFILE = 23,
    HYTHE_EMFILE = 24,
    HYTHE_ENOSPC = 28,
    HYTHE_ENAMETOOLONG = 36,
    HYTHE_ENOSYS = 38,
    HYTHE_EIDRM = 43,
    HYTHE_EPROTO = 71,
    HYTHE_EOVERFLOW = 75,
    HYTHE_EMSGSIZE = 90,
    HYTHE_ECONNRESET = 104,
    HYTHE_ENOBUFS = 105,
    HYTHE_ENOTCONN = 107,
    HYTHE_ETIMEDOUT = 110,
    HYTHE_EOWNERDEAD = 130
};

/* What hythe_services_start() needs; may be dropped after the call. */
struct hythe_services_config {
    struct hythe_endpoint *endpoint;
    /* One for each call that may be open at once: for each task that calls. */
    struct hythe_open_request *requests;
    uint32_t request_count;
    /* The area of segments under this core's address, as its board has it; NULL and 0: none. */
    void *segments;
    size_t segments_bytes;
    /* The endpoint for long messages, as `endpoint`, and its requests; NULL and 0: none is sent. */
    struct hythe_endpoint *messages;
    struct hythe_open_request *message_requests;
    uint32_t message_request_count;
    /* In place of HYTHE_SERVICES_TIMEOUT_MS; 0: that. */
    uint32_t timeout_ms;
};

/* The caller gives it memory, only the library touches it. */
struct hythe_services {
    struct hythe_client client;
    /* Its endpoint is NULL: there is none. */
    struct hythe_client messages;
    uint8_t *segments;
    size_t segments_bytes;
    uint32_t timeout_ms;
    /* Tells the agent that a task has ended; 0: it could not be told now. For task.c. */
    int (*task_ended)(struct hythe_services *services, uint32_t task);
};

/*
 * A semaphore or a queue that is open; the program gives it memory, a copy of it is the same
 * handle. It belongs to the task that opened it, and ends with it; one that was opened by a task
 * that is not registered (hythe_task.h) is the whole program's.
 */
struct hythe_object {
    /* NULL: it is not open. */
    struct hythe_services *services;
    uint32_t handle;
};

/* Bits of `flags` of hythe_sem_open() and hythe_mq_open(), with Linux's values. */
#define HYTHE_O_RDONLY 0u
#define HYTHE_O_WRONLY 1u
#define HYTHE_O_RDWR 2u
#define HYTHE_O_CREAT 0x40u
#define HYTHE_O_EXCL 0x80u
#define HYTHE_O_NONBLOCK 0x800u

/* The longest wait: 49 days. */
#define HYTHE_FOREVER 0xFFFFFFFEu

/*
 * Begins to use the agent's services. Call once, behind hythe_link_start(), before any task calls
 * one. `requests` and `services` belong to the library from here on, as long as the link does.
 * Never blocks.
 *
 * 0; -HYTHE_EINVAL: another kind of endpoint, no memory for requests, or an area that does not
 * begin at a page.
 */
int hythe_services_start(struct hythe_services *services,
                         const struct hythe_services_config *config);

/* ---- For hythe_sem.h and hythe_mq.h ---- */

/* Numbers of methods, less 0x80000000 (spec/services.md). */
enum hythe_object_method {
    HYTHE_SEM_OPEN = 16,
    HYTHE_SEM_CLOSE = 17,
    HYTHE_SEM_UNLINK = 18,
    HYTHE_SEM_WAIT = 19,
    HYTHE_SEM_POST = 20,
    HYTHE_SEM_VALUE = 21,
    HYTHE_SEM_RECOVER_COUNTS = 22,
    HYTHE_MQ_OPEN = 32,
    HYTHE_MQ_CLOSE = 33,
    HYTHE_MQ_UNLINK = 34,
    HYTHE_MQ_RECEIVE = 35,
    HYTHE_MQ_ATTRIBUTES = 36,
    HYTHE_MQ_NOTICE = 37,
    HYTHE_MQ_NOTIFY = 38,
    HYTHE_MQ_WAIT_SPACE = 39,
    HYTHE_MQ_SEND = 40,
    HYTHE_MQ_TAKEN = 41
};

/*
 * Opens what `name` names, or with `object` NULL takes that name away. `values` has mode and two
 * more arguments, then what the agent answers.
 */
int hythe_object_open(struct hythe_services *services, struct hythe_object *object, uint32_t method,
                      const char *name, uint32_t flags, uint32_t values[3]);

/* A call with a handle and nothing else; `value` gets the first value of the answer. */
int hythe_object_call(const struct hythe_object *object, uint32_t method, uint32_t timeout_ms,
                      uint32_t *value);

/* Closes it, whatever the agent says: the handle is not to be used again. */
int hythe_object_close(struct hythe_object *object, uint32_t method);

#endif
