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

/* ---- Semaphores and queues ---- */

/* Is there one of that place among so many names? */
static int has_name(const struct hythe_gate_server *server, const struct hythe_gate_call *call,
                    uint32_t count)
{
    return call->target < count && call->target < HYTHE_GATE_OBJECTS &&
           server->task->tasks->config.services != NULL;
}

/* What the agent knows no more, such as one that was started anew, is opened again next time. */
static int settle(struct hythe_object *object, int result)
{
    if (result == -HYTHE_EBADF) {
        object->services = NULL;
    }
    return result;
}

/* An open semaphore; NULL, and why. */
static struct hythe_sem *semaphore_of(struct hythe_gate_server *server,
                                      const struct hythe_gate_call *call, int *result)
{
    const struct hythe_restriction *restriction = server->task->config->restriction;
    struct hythe_sem *semaphore;

    *result = -HYTHE_EBADF;
    if (!has_name(server, call, restriction->semaphore_count)) {
        return NULL;
    }
    semaphore = &server->semaphores[call->target];
    *result = semaphore->object.services != NULL
                  ? 0
                  : hythe_sem_open(server->task->tasks->config.services,
                                   restriction->semaphores[call->target], 0, 0, 0, semaphore);
    return *result < 0 ? NULL : semaphore;
}

/* The same of a queue, with memory that the task reaches to read the message, or to write it. */
static struct hythe_mq *queue_of(struct hythe_gate_server *server,
                                 const struct hythe_gate_call *call, int writes, int *result)
{
    const struct hythe_restriction *restriction = server->task->config->restriction;
    struct hythe_mq *queue;

    *result = -HYTHE_EBADF;
    if (!has_name(server, call, restriction->queue_count)) {
        return NULL;
    }
    *result = -HYTHE_EFAULT;
    if (!hythe_gate_reaches(server, (uintptr_t)call->at, call->bytes, writes)) {
        return NULL;
    }
    queue = &server->queues[call->target];
    *result = queue->object.services != NULL
                  ? 0
                  : hythe_mq_open(server->task->tasks->config.services,
                                  restriction->queues[call->target], HYTHE_O_RDWR, 0, NULL, queue);
    return *result < 0 ? NULL : queue;
}

static int sem_wait(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    int result;
    struct hythe_sem *semaphore = semaphore_of(server, call, &result);

    return semaphore == NULL
               ? result
               : settle(&semaphore->object, hythe_sem_timedwait(semaphore, call->timeout_ms));
}

static int sem_post(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    int result;
    struct hythe_sem *semaphore = semaphore_of(server, call, &result);

    return semaphore == NULL ? result : settle(&semaphore->object, hythe_sem_post(semaphore));
}

static int mq_send(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    int result;
    struct hythe_mq *queue = queue_of(server, call, 0, &result);

    return queue == NULL ? result
                         : settle(&queue->object,
                                  hythe_mq_timedsend(queue, call->at, call->bytes,
                                                     (uint32_t)call->value, call->timeout_ms));
}

static int mq_receive(struct hythe_gate_server *server, struct hythe_gate_call *call)
{
    uint32_t priority = 0;
    int result;
    struct hythe_mq *queue = queue_of(server, call, 1, &result);

    if (queue == NULL) {
        return result;
    }
    result = hythe_mq_timedreceive(queue, call->at, call->bytes, &priority, call->timeout_ms);
    call->value = priority;
    return settle(&queue->object, result);
}

/* By enum hythe_gate_operation. */
static int (*const operations[HYTHE_GATE_OPERATIONS])(struct hythe_gate_server *server,
                                                      struct hythe_gate_call *call) = {
    [HYTHE_GATE_BEGIN] = begin,       [HYTHE_GATE_END] = end,
    [HYTHE_GATE_RECEIVE] = receive,   [HYTHE_GATE_SHOULD_STOP] = should_stop,
    [HYTHE_GATE_LEASE] = lease,       [HYTHE_GATE_PUBLISH] = publish,
    [HYTHE_GATE_FORWARD] = forward,   [HYTHE_GATE_RELEASE] = release,
    [HYTHE_GATE_SEM_WAIT] = sem_wait, [HYTHE_GATE_SEM_POST] = sem_post,
    [HYTHE_GATE_MQ_SEND] = mq_send,   [HYTHE_GATE_MQ_RECEIVE] = mq_receive,
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
