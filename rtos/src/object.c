/*
 * Semaphores, and what message queues share with them: opening by name, and calls by handle. The
 * functions of hythe_sem.h are these with a method. Never allocates.
 */
#include "services.h"

/* One byte more than any name has is enough to be refused. */
#define NAME_MAX 256u

#define OF_HYTHE 0x80000000u

int hythe_object_open(struct hythe_services *services, struct hythe_object *object, uint32_t method,
                      const char *name, uint32_t flags, uint32_t values[3])
{
    struct hythe_services_call call = {0};
    uint32_t i;
    int result;

    call.payload = name;
    while (call.payload_bytes < NAME_MAX && name[call.payload_bytes] != '\0') {
        call.payload_bytes++;
    }
    call.words[HYTHE_CALL_FLAGS] = flags;
    call.words[HYTHE_CALL_ARGUMENT + 1] = values[1];
    call.words[HYTHE_CALL_ARGUMENT + 2] = values[2];
    result =
        hythe_services_call(services, &call, OF_HYTHE | method, values[0], services->timeout_ms);
    for (i = 0; i < 3; i++) {
        values[i] = call.words[HYTHE_CALL_VALUE + i];
    }
    if (object != NULL) {
        object->services = result < 0 ? NULL : services;
        object->handle = values[0];
    }
    return result;
}

int hythe_object_ask(const struct hythe_object *object, struct hythe_services_call *call,
                     uint32_t method, uint32_t timeout_ms)
{
    if (object->services == NULL) {
        return -HYTHE_EBADF;
    }
    call->grace_ms = object->services->timeout_ms;
    return hythe_services_call(object->services, call, OF_HYTHE | method, object->handle,
                               timeout_ms);
}

int hythe_object_call(const struct hythe_object *object, uint32_t method, uint32_t timeout_ms,
                      uint32_t *value)
{
    struct hythe_services_call call = {0};
    int result = hythe_object_ask(object, &call, method, timeout_ms);

    if (result >= 0 && value != NULL) {
        *value = call.words[HYTHE_CALL_VALUE];
    }
    return result;
}

int hythe_object_close(struct hythe_object *object, uint32_t method)
{
    int result = hythe_object_call(object, method, 0, NULL);

    object->services = NULL;
    return result;
}
