/*
 * Calls of methods by number, both ways (spec/services.md): this core serves methods that processes
 * call, and calls those that processes serve. A call is a request, so all that hythe_rt.h says of
 * requests holds: several may be outstanding, replies come in any order, each ends with a reply, a
 * reason why there is none, or its time-out.
 *
 * Arguments and results are bytes, read and written in place. Linux is not trusted to leave an
 * argument alone: a method that decides by it reads each byte once.
 *
 * Linked only into programs that use it. Results are those of hythe_rt.h, and these.
 */
#ifndef HYTHE_RPC_H
#define HYTHE_RPC_H

#include "hythe_rt.h"

enum hythe_rpc_error {
    /* The server has no such method. */
    HYTHE_E_METHOD = -12,
    /* The result is larger than the caller takes; its size is known. */
    HYTHE_E_RESULT = -13,
    /* The method failed, with a number of its own. */
    HYTHE_E_FAILED = -14,
    /* What came is no call, or no reply to one: counted as a violation. */
    HYTHE_E_MALFORMED = -15
};

/* ---- Serving ---- */

/* A call that was received. */
struct hythe_rpc_request {
    /* 1 to 0x7FFFFFFF. */
    uint32_t method;
    /* Number of the caller's task, if that is on a core; 0: none. */
    uint32_t task;
    /* How long the caller waits. */
    uint32_t timeout_ms;
    const uint8_t *argument;
    uint32_t argument_bytes;
    /* Private: the request, and the largest result that the caller takes. */
    struct hythe_buffer buffer;
    uint32_t largest;
};

/*
 * The result to be written. It stands where the argument stands: read that first. Nothing may be
 * written beyond `capacity` bytes, nor beyond the longer of argument and `bytes`.
 */
struct hythe_rpc_reply {
    uint8_t *result;
    uint32_t capacity;
    /* 0 at first. More than `capacity`: the caller is told that size, and gets no result. */
    uint32_t bytes;
};

/* One method. It returns 0, or a number of its own from 1 on: it failed. */
struct hythe_rpc_method {
    uint32_t method;
    int (*serve)(void *context, const struct hythe_rpc_request *request,
                 struct hythe_rpc_reply *reply);
    void *context;
};

/*
 * Serves one call that comes over `calls`, an endpoint of direction HYTHE_TO_CORE and kind
 * HYTHE_KIND_REQUESTS: calls its method, which runs in this task, and replies. Blocks up to
 * `timeout_ms` until one comes; 0 only looks.
 *
 * HYTHE_OK: it is answered, also with HYTHE_E_METHOD or HYTHE_E_RESULT. HYTHE_STALE: its caller is
 * gone, nobody has got the result. HYTHE_E_MALFORMED: what came is no call; it is given up. Else as
 * hythe_receive(): none came.
 */
int hythe_rpc_serve(struct hythe_endpoint *calls, const struct hythe_rpc_method *table,
                    uint32_t count, uint32_t timeout_ms);

/*
 * The parts of hythe_rpc_serve(), for a program that answers some calls later, or in another order.
 *
 * The first receives a call: HYTHE_OK, and the caller owes it one of the other two. The second
 * calls the method by the table and answers. The third answers with `error`: 0, and the result is
 * `reply->bytes` bytes, or the number of the failure. The results of both are those of
 * hythe_rpc_serve(); HYTHE_E_ARGUMENT: a negative error, the call is still owed. The last two never
 * block by themselves.
 */
int hythe_rpc_receive(struct hythe_endpoint *calls, struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply, uint32_t timeout_ms);
int hythe_rpc_dispatch(struct hythe_rpc_request *request, struct hythe_rpc_reply *reply,
                       const struct hythe_rpc_method *table, uint32_t count);
int hythe_rpc_answer(struct hythe_rpc_request *request, const struct hythe_rpc_reply *reply,
                     int error);

/* ---- Calling ---- */

/* What came of a call. */
struct hythe_rpc_result {
    /* With HYTHE_OK: the result, to be read in place until hythe_release(&buffer). */
    const uint8_t *data;
    /* Its size; with HYTHE_E_RESULT how large it would have been. */
    uint32_t bytes;
    /* With HYTHE_E_FAILED: the number of the failure. */
    int32_t error;
    struct hythe_buffer buffer;
};

/*
 * Calls a method of a Linux server and waits for its result: `client` was started with
 * hythe_client_start(). Copies the argument in and the result out; `length` gets its size. Blocks
 * up to `timeout_ms`, at most 2^32 - 2.
 *
 * HYTHE_OK. HYTHE_E_METHOD. HYTHE_E_RESULT: it is larger than `capacity`, or than the endpoint's
 * largest payload less 32; `length` is the size it has. HYTHE_E_FAILED: `length` is the number of
 * the failure. HYTHE_E_MALFORMED. HYTHE_E_LENGTH: the argument is too long. HYTHE_E_TIMEOUT: the
 * call is over; a reply that comes late is dropped and counted. HYTHE_E_LOST: the server has left,
 * or the agent; whether the method has run is not known. Else as hythe_request_lease(),
 * hythe_request_send() and hythe_reply_wait().
 */
int hythe_rpc_call(struct hythe_client *client, uint32_t method, const void *argument,
                   uint32_t bytes, void *result, uint32_t capacity, uint32_t *length,
                   uint32_t timeout_ms);

/*
 * The parts of hythe_rpc_call(), for several outstanding calls and without a copy. The first is
 * hythe_request_lease() with space for the header: the argument is written from `buffer->data` on.
 * The second sends it, as hythe_request_send(): with HYTHE_E_FULL, _LENGTH and _ARGUMENT it is
 * still held. `timeout_ms` is told to the server.
 *
 * The third waits until the call `*number` is over, or with 0 there any, as hythe_reply_wait(), and
 * says what came of it: HYTHE_OK, and the result is to be released; HYTHE_E_METHOD, HYTHE_E_RESULT,
 * HYTHE_E_FAILED, HYTHE_E_MALFORMED: nothing is held. After HYTHE_E_TIMEOUT it is still
 * outstanding: wait again, or hythe_request_forget().
 */
int hythe_rpc_lease(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t timeout_ms);
int hythe_rpc_begin(struct hythe_client *client, uint32_t method, struct hythe_buffer *buffer,
                    uint32_t bytes, uint32_t timeout_ms, uint64_t *number);
int hythe_rpc_wait(struct hythe_client *client, uint64_t *number, struct hythe_rpc_result *result,
                   uint32_t timeout_ms);

#endif
