/*
 * What a gate does for its restricted task (hythe_gate.h): one call at a time. Runs in the gate's
 * task, which the library takes for the registered one, with the rights of the program; so nothing
 * that the restricted task says is used unchecked, and what it may change meanwhile is copied
 * first. Knows nothing of the kernel.
 */
#include "hythe_gate_call.h"

#include <string.h>

int hythe_gate_reaches(const struct hythe_gate_server *server, uintptr_t at, size_t bytes,
                       int writes)
{
    uint32_t i;

    for (i = 0; i < server->range_count; i++) {
        const struct hythe_gate_range *range = &server->ranges[i];
        /* An address below wraps to an offset that is too large. */
        uintptr_t offset = at - range->first;
        if (offset <= range->bytes && bytes <= range->bytes - offset &&
            (range->is_writable || !writes)) {
            return 1;
        }
    }
    return 0;
}

static struct hythe_endpoint *endpoint_of(const struct hythe_gate_server *server,
                                          const struct hythe_gate_call *call)
{
    const struct hythe_restriction *restriction = server->task->config->restriction;

    return call->target < restriction->endpoint_count ? restriction->endpoints[call->target] : NULL;
}

/* NULL: it has no such buffer. */
static struct hythe_buffer *buffer_of(struct hythe_gate_server *server,
                                      const struct hythe_gate_call *call)
{
    /* 0 less 1 is too large. */
    uint32_t place = call->buffer - 1;

    return place < HYTHE_GATE_BUFFERS && server->buffers[place].endpoint != NULL
               ? &server->buffers[place]
               : NULL;
}

static int begin(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    const struct hythe_task *task = server->task;

    if (call->bytes <= task->argument_bytes ||
        !hythe_gate_reaches(server, (uintptr_t)call->at, call->bytes, 1)) {
        return HYTHE_E_ARGUMENT;
    }
    memcpy(call->at, task->argument, task->argument_bytes + 1);
    call->bytes = task->argument_bytes;
    call->value = (uintptr_t)task->config->restriction->run;
    return HYTHE_OK;
}

static int end(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    (void)call;
    server->has_ended = 1;
    return HYTHE_OK;
}

static int should_stop(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    (void)call;
    return hythe_task_should_stop(server->task);
}

typedef int (*taker)(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer,
                     uint32_t timeout_ms);

static int take(struct hythe_gate_server *server, struct hythe_gate_call *call, taker take_from)
{
    struct hythe_endpoint *endpoint = endpoint_of(server, call);
    uint32_t place;
    int result;

    if (endpoint == NULL || server->task->config->restriction->slots == 0) {
        return HYTHE_E_ARGUMENT;
    }
    for (place = 0; place < HYTHE_GATE_BUFFERS && server->buffers[place].endpoint != NULL;) {
        place++;
    }
    if (place == HYTHE_GATE_BUFFERS) {
        return HYTHE_E_FULL;
    }
    result = take_from(endpoint, &server->buffers[place], call->timeout_ms);
    if (result == HYTHE_OK) {
        call->buffer = place + 1;
        call->at = server->buffers[place].data;
        call->bytes = server->buffers[place].length;
    } else {
        server->buffers[place].endpoint = NULL;
    }
    return result;
}

static int receive(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    return take(server, call, hythe_receive);
}

static int lease(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    return take(server, call, hythe_lease);
}

static int publish(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    struct hythe_buffer *buffer = buffer_of(server, call);

    return buffer == NULL ? HYTHE_E_ARGUMENT : hythe_publish(buffer, call->bytes, call->timeout_ms);
}

static int forward(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    struct hythe_buffer *buffer = buffer_of(server, call);
    struct hythe_endpoint *to = endpoint_of(server, call);

    return buffer == NULL || to == NULL ? HYTHE_E_ARGUMENT
                                        : hythe_forward(buffer, to, call->timeout_ms);
}

static int release(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    struct hythe_buffer *buffer = buffer_of(server, call);

    return buffer == NULL ? HYTHE_E_ARGUMENT : hythe_release(buffer);
}

/* By enum hythe_gate_operation. */
static int (*const operations[HYTHE_GATE_OPERATIONS])(struct hythe_gate_server *server,
                                                      struct hythe_gate_call *call) = {
    [HYTHE_GATE_BEGIN] = begin,     [HYTHE_GATE_END] = end,
    [HYTHE_GATE_RECEIVE] = receive, [HYTHE_GATE_SHOULD_STOP] = should_stop,
    [HYTHE_GATE_LEASE] = lease,     [HYTHE_GATE_PUBLISH] = publish,
    [HYTHE_GATE_FORWARD] = forward, [HYTHE_GATE_RELEASE] = release,
};

void hythe_gate_serve(struct hythe_gate_server *server, uintptr_t at)
{
    struct hythe_gate_call call;

    if (!hythe_gate_reaches(server, at, sizeof call, 1)) {
        return;
    }
    memcpy(&call, (const void *)at, sizeof call);
    call.result = call.operation < HYTHE_GATE_OPERATIONS ? operations[call.operation](server, &call)
                                                         : HYTHE_E_ARGUMENT;
    if (buffer_of(server, &call) == NULL) {
        call.buffer = 0;
    }
    memcpy((void *)at, &call, sizeof call);
}
