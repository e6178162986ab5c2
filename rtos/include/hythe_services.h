/*
 * What this core asks its Linux agent for (spec/services.md, "Services for a core"): segments, and
 * what follows them. A program that asks offers the endpoint HYTHE_SERVICES_ENDPOINT, of direction
 * HYTHE_FROM_CORE, kind HYTHE_KIND_REQUESTS, type HYTHE_SERVICES_TYPE and HYTHE_SERVICES_BYTES, and
 * starts `struct hythe_services` over it. The agent serves it from the core's start on.
 *
 * Functions of services return 0 or more, or a negative error number of Linux, the same on any
 * core: -HYTHE_ENOENT. Some of them are about the call, not about what was asked:
 *
 * -HYTHE_ETIMEDOUT: no answer within the time; whether it was done is not known.
 * -HYTHE_ENOTCONN: no agent, or one that does not serve this program.
 * -HYTHE_ECONNRESET: the agent has left meanwhile; whether it was done is not known.
 * -HYTHE_EAGAIN: as many calls as there are `requests` are open.
 * -HYTHE_EPROTO: what came is no answer; counted as a violation.
 * -HYTHE_EIO: the agent could not answer.
 *
 * All of them may be called from several tasks (and cores) at once, never from an interrupt, and
 * block up to `timeout_ms`, at most 2^32 - 2. Linked only into programs that use them.
 */
#ifndef HYTHE_SERVICES_H
#define HYTHE_SERVICES_H

#include "hythe_rt.h"

/* Of the endpoint. */
#define HYTHE_SERVICES_ENDPOINT "core/services"
/* FNV-1a of "hythe.services/1": an agent of another version does not serve it. */
#define HYTHE_SERVICES_TYPE 0x1B7098ADu
/* Requests are small; a reply may carry a header and 64 KiB. */
#define HYTHE_SERVICES_BYTES 65568u

enum hythe_errno {
    HYTHE_EPERM = 1,
    HYTHE_ENOENT = 2,
    HYTHE_EIO = 5,
    HYTHE_EAGAIN = 11,
    HYTHE_ENOMEM = 12,
    HYTHE_EACCES = 13,
    HYTHE_EFAULT = 14,
    HYTHE_EEXIST = 17,
    HYTHE_EINVAL = 22,
    HYTHE_ENOSPC = 28,
    HYTHE_ENOSYS = 38,
    HYTHE_EIDRM = 43,
    HYTHE_EPROTO = 71,
    HYTHE_EMSGSIZE = 90,
    HYTHE_ECONNRESET = 104,
    HYTHE_ENOTCONN = 107,
    HYTHE_ETIMEDOUT = 110
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
};

/* The caller gives it memory, only the library touches it. */
struct hythe_services {
    struct hythe_client client;
    uint8_t *segments;
    size_t segments_bytes;
};

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

#endif
