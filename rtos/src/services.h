/*
 * One call of a service of the agent, for services.c and the files that each have one kind of
 * service.
 */
#ifndef HYTHE_SERVICES_CALL_H
#define HYTHE_SERVICES_CALL_H

#include "call.h"
#include "hythe_services.h"

#define HYTHE_METHOD_SHM_GET 0x80000001u
#define HYTHE_METHOD_SHM_ATTACH 0x80000002u
#define HYTHE_METHOD_SHM_DETACH 0x80000003u
#define HYTHE_METHOD_SHM_STAT 0x80000004u
#define HYTHE_METHOD_SHM_SET 0x80000005u
#define HYTHE_METHOD_SHM_REMOVE 0x80000006u
#define HYTHE_METHOD_TASK_EVENT 0x80000031u

/* Bytes of a page of segments. */
#define HYTHE_SEGMENT_PAGE 4096u

struct hythe_services_call {
    /*
     * Before: the header of the call, but for time-out and length. After: that of the answer; with
     * an error nothing.
     */
    uint32_t words[HYTHE_CALL_WORDS];
    /* Behind the header: what is sent, and where what comes is put, of exactly `result_bytes`. */
    const void *payload;
    uint32_t payload_bytes;
    void *result;
    uint32_t result_bytes;
};

/*
 * Calls, and waits for the answer up to `timeout_ms`. Returns what it says: 0 or more, or a
 * negative error number, also of the call itself (hythe_services.h). -HYTHE_EMSGSIZE: the payload
 * does not fit the slot that the agent gave; -HYTHE_EPROTO: the answer has other than
 * `result_bytes` behind its header.
 */
int hythe_services_call(struct hythe_services *services, struct hythe_services_call *call,
                        uint32_t timeout_ms);

/* What the agent said cannot be: counts a violation, and returns -HYTHE_EPROTO. */
int hythe_services_lie(struct hythe_services *services);

#endif
