/*
 * What a result of the library means, as text: for a console, a log or a debugger.
 *
 * Included by programs that want it: the texts are compiled into who calls the function, so other
 * programs do not pay for them. From any task or interrupt; never blocks, never fails.
 */
#ifndef HYTHE_RESULT_TEXT_H
#define HYTHE_RESULT_TEXT_H

#include "hythe_rt.h"

/*
 * The text of an enum hythe_result: a constant string without a line feed. Other numbers, those of
 * hythe_rpc.h among them, are "another result".
 */
static inline const char *hythe_result_text(int result)
{
    switch (result) {
    case HYTHE_OK:
        return "done";
    case HYTHE_STALE:
        return "the session of the buffer is over; the buffer was dropped";
    case HYTHE_E_ARGUMENT:
        return "a parameter makes no sense";
    case HYTHE_E_TIMEOUT:
        return "nothing came within the time";
    case HYTHE_E_DOWN:
        return "no Linux agent has met this core yet, or it has left";
    case HYTHE_E_REFUSED:
        return "this core does not accept the version or the geometry of Linux";
    case HYTHE_E_DETACHED:
        return "no Linux port is attached to the endpoint";
    case HYTHE_E_FULL:
        return "Linux has not taken earlier buffers yet";
    case HYTHE_E_QUARANTINED:
        return "Linux wrote an impossible counter; the port must attach anew";
    case HYTHE_E_LENGTH:
        return "the payload is longer than the buffer";
    case HYTHE_E_LOST:
        return "the server that was asked has left";
    case HYTHE_E_GIVEN_UP:
        return "the server that was asked sends no reply";
    case HYTHE_E_NO_SLOT:
        return "no port gave an empty slot within the time";
    case HYTHE_E_LINK_ADDRESS:
        return "`link` is NULL or not aligned to 64 bytes";
    case HYTHE_E_LINK_BYTES:
        return "`link_bytes` is less than HYTHE_LINK_BYTES_MIN or more than 32 bits hold";
    case HYTHE_E_REGION:
        return "`region` is NULL";
    case HYTHE_E_NAME:
        return "`name` is NULL, empty or longer than 32 bytes";
    case HYTHE_E_ENDPOINT_COUNT:
        return "`endpoints` is NULL, or there are 0 or more than HYTHE_MAX_ENDPOINTS";
    case HYTHE_E_ENDPOINT_NAME:
        return "the name of an endpoint is NULL, empty or longer than 32 bytes";
    case HYTHE_E_ENDPOINT_DIRECTION:
        return "the direction of an endpoint is unknown";
    case HYTHE_E_ENDPOINT_KIND:
        return "the kind of an endpoint is unknown";
    case HYTHE_E_PORT_CALLS:
        return "`port` is NULL, or its `wait`, `ring` or `now_ms` is";
    case HYTHE_E_PORT_LOCK:
        return "of `lock` and `unlock` of the port only one is there";
    default:
        return "another result";
    }
}

#endif
