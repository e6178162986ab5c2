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
#define HYTHE_METHOD_MQ_RECEIVE 0x80000023u
#define HYTHE_METHOD_MQ_TAKEN 0x80000029u
#define HYTHE_METHOD_TASK_ENDED 0x80000030u
#define HYTHE_METHOD_TASK_EVENT 0x80000031u

/* Bytes of a page of segments. */
#define HYTHE_SEGMENT_PAGE 4096u

struct hythe_services_call {
    /*
     * Before: the header of the call, but for method, task, time-out, first argument and length.
     * After: that of the answer; with an error nothing.
     */
    uint32_t words[HYTHE_CALL_WORDS];
    /* Behind the header: what is sent, and where what comes is put, of at most `result_bytes`. */
    const void *payload;
    uint32_t payload_bytes;
    void *result;
    /* Then: what came. */
    uint32_t result_bytes;
    /* How much longer than `timeout_ms` the answer may take: the agent waits so long itself. */
    uint32_t grace_ms;
};

/*
 * Calls, and waits for the answer up to `timeout_ms`; a message that comes so is confirmed. Returns
 * what it says: 0 or more, or a negative error number, also of the call itself (hythe_services.h).
 * -HYTHE_EMSGSIZE: the payload does not fit the slot that the agent gave; -HYTHE_EPROTO: the answer
 * has more than `result_bytes` behind its header, or what is wrong in it.
 */
int hythe_services_call(struct hythe_services *services, struct hythe_services_call *call,
                        uint32_t method, uint32_t first, uint32_t timeout_ms);

/* The same of an open object: -HYTHE_EBADF: it is not open. The agent waits up to `timeout_ms`. */
int hythe_object_ask(const struct hythe_object *object, struct hythe_services_call *call,
                     uint32_t method, uint32_t timeout_ms);

/*
 * Sends a buffer that was leased, or a reply's, to the agent, which answers nothing: it is counted
 * by no open request. The buffer is gone. client.c.
 */
void hythe_request_tell(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t length);

/* What the agent said cannot be: counts a violation, and returns -HYTHE_EPROTO. */
int hythe_services_lie(struct hythe_services *services);

#endif
