/*
 * Buffers from Linux: receive and lease.
 *
 * Each public function is a loop of "try under the lock, then wait"; the tries decide, and never
 * wait. A buffer is counted in `held` of its flow and endpoint until give.c lets it go.
 */
#include "geometry.h"
#include "link.h"
#include "shared.h"
#include "wait.h"

int hythe_take_accept(const struct hythe_endpoint *endpoint, struct hythe_buffer *buffer,
                      const uint32_t words[HYTHE_WORDS])
{
    const struct hythe_link *link = endpoint->link;
    uint32_t place = words[HYTHE_WORD_PLACE];
    uint32_t generation = words[HYTHE_WORD_GENERATION];
    uint32_t offset = words[HYTHE_WORD_OFFSET];
    uint32_t length = words[HYTHE_WORD_LENGTH];
    uint32_t region_offset;
    uint32_t slot_bytes;
    uint32_t i;

    if (hythe_place_region(place) != link->geometry.region ||
        !hythe_geometry_slot(&link->geometry, hythe_place_slot(place), &region_offset,
                             &slot_bytes) ||
        generation == 0 || generation > HYTHE_GENERATION_MAX || offset > slot_bytes ||
        length > slot_bytes - offset || words[HYTHE_WORD_REFERENCES] == 0) {
        return 0;
    }
    buffer->slot = link->region + region_offset;
    buffer->data = buffer->slot + offset;
    buffer->length = length;
    for (i = 0; i < HYTHE_WORDS; i++) {
        buffer->words[i] = words[i];
    }
    return 1;
}

/*
 * What of the payload may still be in our cache from an earlier use of the slot. Of an empty slot
 * nothing is read, and nothing of it is dirty: give.c sees to that.
 */
static void forget_cached(const struct hythe_endpoint *endpoint, const struct hythe_buffer *buffer)
{
    if (endpoint->direction == HYTHE_TO_CORE) {
        hythe_invalidate(endpoint->link->port, buffer->data, buffer->length);
    }
}

void hythe_take_hold(struct hythe_endpoint *endpoint, uint32_t port, struct hythe_buffer *buffer)
{
    struct hythe_flow *flow = &endpoint->flows[port];

    buffer->endpoint = endpoint;
    buffer->port = port;
    buffer->attachment = flow->attachment;
    buffer->tracked = 0;
    if (endpoint->link->tracker != NULL) {
        endpoint->link->tracker->took(endpoint->link->tracker, buffer);
    }
    flow->held++;
    endpoint->counters.held++;
    endpoint->counters.received++;
}

/* HYTHE_OK, or why nothing comes from this flow now: HYTHE_E_TIMEOUT, _DETACHED, _QUARANTINED. */
static int take_from(struct hythe_endpoint *endpoint, uint32_t port, struct hythe_buffer *buffer)
{
    struct hythe_flow_view view;
    uint32_t words[HYTHE_WORDS];
    uint32_t looks;

    hythe_flow_look(&view, endpoint, port);
    if (view.flow->quarantined) {
        return HYTHE_E_QUARANTINED;
    }
    /* One turn of the ring at most, however many bad entries Linux writes behind each other. */
    for (looks = 0; looks < view.capacity; looks++) {
        int found = hythe_inbox_peek(&view, 0, words);
        if (found == HYTHE_QUEUE_NOT_NOW) {
            return HYTHE_E_TIMEOUT;
        }
        /* A session that ended meanwhile: what we read proves nothing, not even a bad tail. */
        if (!hythe_session_is_current(endpoint, port)) {
            return HYTHE_E_DETACHED;
        }
        if (found == HYTHE_QUEUE_BROKEN) {
            return hythe_flow_quarantine(endpoint, port);
        }
        hythe_inbox_advance(&view);
        if (hythe_take_accept(endpoint, buffer, words)) {
            forget_cached(endpoint, buffer);
            hythe_take_hold(endpoint, port, buffer);
            return HYTHE_OK;
        }
        hythe_violation(endpoint);
    }
    return HYTHE_E_TIMEOUT;
}

/* Asks those of the ports that are attached. HYTHE_E_DETACHED: none is. */
static int take_from_any(struct hythe_endpoint *endpoint, uint32_t ports,
                         struct hythe_buffer *buffer)
{
    int result = HYTHE_E_DETACHED;
    uint32_t port;

    for (port = 0; ports >> port != 0; port++) {
        int found;
        if ((ports >> port & 1u) == 0) {
            continue;
        }
        found = take_from(endpoint, port, buffer);
        if (found == HYTHE_OK) {
            endpoint->next_port = port + 1;
            return HYTHE_OK;
        }
        if (found == HYTHE_E_TIMEOUT || result == HYTHE_E_DETACHED) {
            result = found;
        }
    }
    return result;
}

/* Asks the attached ports in turn, beginning behind the one that gave last. */
static int try_take(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer)
{
    uint32_t earlier = ((uint32_t)1 << endpoint->next_port) - 1;
    int result = take_from_any(endpoint, endpoint->attached & ~earlier, buffer);
    int other;

    if (result == HYTHE_OK) {
        return HYTHE_OK;
    }
    other = take_from_any(endpoint, endpoint->attached & earlier, buffer);
    return other == HYTHE_E_DETACHED || (result == HYTHE_E_TIMEOUT && other != HYTHE_OK) ? result
                                                                                         : other;
}

static int serve_and_take(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer)
{
    struct hythe_link *link = endpoint->link;
    int result;

    hythe_link_lock(link);
    result = hythe_link_serve(link);
    if (result == HYTHE_OK) {
        result = try_take(endpoint, buffer);
    }
    hythe_link_unlock(link);
    return result;
}

/*
 * Has Linux done nothing since the last look? Without the lock, which costs more than all of this:
 * another task may change what is read here meanwhile, so no is always possible, and yes means that
 * there was nothing a moment ago.
 */
static int is_quiet(const struct hythe_endpoint *endpoint)
{
    const struct hythe_link *link = endpoint->link;
    uint32_t port;

    if (link->state != HYTHE_STATE_UP || endpoint->attached == 0 || !hythe_link_is_quiet(link)) {
        return 0;
    }
    for (port = 0; endpoint->attached >> port != 0; port++) {
        if (hythe_flow_is_attached(endpoint, port) && !hythe_flow_is_quiet(endpoint, port)) {
            return 0;
        }
    }
    return 1;
}

/* Counts waits only: a program that polls looks again and again. */
static int no_slot(struct hythe_endpoint *endpoint, uint32_t timeout_ms)
{
    if (timeout_ms != 0) {
        hythe_link_lock(endpoint->link);
        hythe_endpoint_count(endpoint, &endpoint->counters.no_slot, HYTHE_RECORD_AT_NO_SLOT);
        hythe_link_unlock(endpoint->link);
    }
    return HYTHE_E_NO_SLOT;
}

/* The endpoint has this direction, and what it carries is of kind `most` or one before. */
static int take(struct hythe_endpoint *endpoint, uint32_t direction, uint32_t most,
                struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (endpoint == NULL || buffer == NULL || endpoint->direction != direction ||
        endpoint->kind > most) {
        return HYTHE_E_ARGUMENT;
    }
    buffer->endpoint = NULL;
    hythe_wait_begin(&wait, endpoint->link, endpoint->spin_checks, timeout_ms);
    do {
        result = is_quiet(endpoint) ? HYTHE_E_TIMEOUT : serve_and_take(endpoint, buffer);
    } while (result != HYTHE_OK && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result;
}

/* ---- Public ---- */

int hythe_receive(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    return take(endpoint, HYTHE_TO_CORE, HYTHE_KIND_REQUESTS, buffer, timeout_ms);
}

int hythe_lease(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    int result = take(endpoint, HYTHE_FROM_CORE, HYTHE_KIND_MESSAGES, buffer, timeout_ms);

    return result == HYTHE_E_TIMEOUT ? no_slot(endpoint, timeout_ms) : result;
}
