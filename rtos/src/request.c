/*
 * Requests of Linux and their replies (spec/link.md, "Requests"): a reply is written where the
 * request was, and goes back over the flow that it came with. Linked only into programs that use
 * it. Never looks at a payload.
 */
#include "descriptor.h"
#include "geometry.h"
#include "link.h"
#include "shared.h"

static int is_request(const struct hythe_buffer *buffer)
{
    return buffer != NULL && buffer->endpoint != NULL &&
           buffer->endpoint->kind == HYTHE_KIND_REQUESTS &&
           buffer->endpoint->direction == HYTHE_TO_CORE;
}

uint32_t hythe_reply_capacity(const struct hythe_buffer *request)
{
    uint32_t region_offset;
    uint32_t slot_bytes;

    if (!is_request(request) ||
        !hythe_geometry_slot(&request->endpoint->link->geometry,
                             hythe_place_slot(request->words[HYTHE_WORD_PLACE]), &region_offset,
                             &slot_bytes)) {
        return 0;
    }
    return slot_bytes - (uint32_t)(request->data - request->slot);
}

int hythe_reply(struct hythe_buffer *request, uint32_t length)
{
    struct hythe_link *link;
    int result;

    if (!is_request(request)) {
        return HYTHE_E_ARGUMENT;
    }
    if (length > hythe_reply_capacity(request)) {
        return HYTHE_E_LENGTH;
    }
    link = request->endpoint->link;
    /*
     * What was written beyond the reply, too: nothing may be written back after this. Before the
     * mark, which drops the line of the header: the reply may begin in it.
     */
    hythe_clean(link->port, request->data, length > request->length ? length : request->length);
    hythe_request_mark(request, HYTHE_REQUEST_REPLY);
    hythe_link_lock(link);
    result = hythe_give_back(request, length, &request->endpoint->counters.returned);
    hythe_link_unlock(link);
    return result;
}
