/*
 * Buffers over an endpoint: receive, lease, publish, release, forward.
 *
 * Each public function is a loop of "try under the lock, then wait"; the tries below decide, and never wait. A buffer
 * is counted in `held` of the endpoint it came from until it leaves through give_away() or drop().
 */
#include "descriptor.h"
#include "geometry.h"
#include "link.h"
#include "queue.h"
#include "shared.h"
#include "wait.h"

/* ---- Taking ---- */

/* Why an endpoint cannot be used now, or HYTHE_OK. */
static int usable(const struct hythe_endpoint *endpoint)
{
    if (endpoint->quarantined) {
        return HYTHE_E_QUARANTINED;
    }
    return hythe_session_is_current(endpoint) ? HYTHE_OK : HYTHE_E_DETACHED;
}

static int quarantine(struct hythe_endpoint *endpoint)
{
    endpoint->quarantined = 1;
    endpoint->counters.violations++;
    return HYTHE_E_QUARANTINED;
}

/* Fills `buffer` from a claimed descriptor if every field fits our own geometry. */
static int accept(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer, const uint32_t words[HYTHE_WORDS])
{
    struct hythe_link *link = endpoint->link;
    uint32_t place = words[HYTHE_WORD_PLACE];
    uint32_t generation = words[HYTHE_WORD_GENERATION];
    uint32_t offset = words[HYTHE_WORD_OFFSET];
    uint32_t length = words[HYTHE_WORD_LENGTH];
    uint32_t region_offset;
    uint32_t slot_bytes;
    uint32_t i;

    if (hythe_place_region(place) != link->geometry.region ||
        !hythe_geometry_slot(&link->geometry, hythe_place_slot(place), &region_offset, &slot_bytes) ||
        generation == 0 || generation > HYTHE_GENERATION_MAX || offset > slot_bytes || length > slot_bytes - offset) {
        return 0;
    }
    buffer->endpoint = endpoint;
    buffer->slot = link->region + region_offset;
    buffer->data = buffer->slot + offset;
    buffer->length = length;
    buffer->attachment = endpoint->counters.attachments;
    for (i = 0; i < HYTHE_WORDS; i++) {
        buffer->words[i] = words[i];
    }
    return 1;
}

/* What of the slot may still be in our cache from an earlier use: the payload, and for a lease the headroom as well. */
static void forget_cached(const struct hythe_endpoint *endpoint, const struct hythe_buffer *buffer)
{
    const uint8_t *from = endpoint->direction == HYTHE_FROM_CORE ? buffer->slot : buffer->data;

    hythe_invalidate(endpoint->link->port, from, (size_t)(buffer->data - from) + buffer->length);
}

static int try_take(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer)
{
    const struct hythe_port *port = endpoint->link->port;
    uint32_t words[HYTHE_WORDS];
    uint32_t looks;
    int result = usable(endpoint);

    /* One turn of the ring at most, however many bad descriptors Linux writes behind each other. */
    for (looks = 0; result == HYTHE_OK && looks < endpoint->inbox.capacity; looks++) {
        switch (hythe_inbox_peek(&endpoint->inbox, port, words)) {
        case HYTHE_QUEUE_NOT_NOW:
            return HYTHE_E_TIMEOUT;
        case HYTHE_QUEUE_BROKEN:
            /* A new session may have begun between our look at it and at the tail; then the tail proves nothing. */
            return hythe_session_is_current(endpoint) ? quarantine(endpoint) : HYTHE_E_DETACHED;
        default:
            break;
        }
        if (!hythe_session_is_current(endpoint)) {
            return HYTHE_E_DETACHED;
        }
        hythe_inbox_advance(&endpoint->inbox, port);
        if (accept(endpoint, buffer, words)) {
            forget_cached(endpoint, buffer);
            endpoint->counters.received++;
            endpoint->counters.held++;
            return HYTHE_OK;
        }
        endpoint->counters.violations++;
    }
    return result == HYTHE_OK ? HYTHE_E_TIMEOUT : result;
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

static int take(struct hythe_endpoint *endpoint, uint32_t direction, struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (endpoint == NULL || buffer == NULL || endpoint->direction != direction) {
        return HYTHE_E_ARGUMENT;
    }
    buffer->endpoint = NULL;
    hythe_wait_begin(&wait, endpoint->link, endpoint->spin_checks, timeout_ms);
    do {
        result = serve_and_take(endpoint, buffer);
    } while (result != HYTHE_OK && hythe_wait_again(&wait));
    return result;
}

/* ---- Giving ---- */

/* The program no longer has the buffer. The last one of an old session lets the new one begin. */
static void let_go(struct hythe_buffer *buffer)
{
    buffer->endpoint->counters.held--;
    buffer->endpoint = NULL;
}

/* Ends a buffer that nobody wants any more; the echo that may have waited for it goes out at once. */
static int drop(struct hythe_buffer *buffer, int result)
{
    struct hythe_link *link = buffer->endpoint->link;

    buffer->endpoint->counters.dropped++;
    let_go(buffer);
    (void)hythe_link_serve(link);
    return result;
}

static int room(struct hythe_endpoint *endpoint)
{
    switch (hythe_outbox_room(&endpoint->outbox, endpoint->link->port)) {
    case HYTHE_QUEUE_OK:
        return HYTHE_OK;
    case HYTHE_QUEUE_NOT_NOW:
        return HYTHE_E_FULL;
    default:
        return hythe_session_is_current(endpoint) ? quarantine(endpoint) : HYTHE_E_DETACHED;
    }
}

static void push(struct hythe_endpoint *endpoint, const struct hythe_buffer *buffer, uint32_t length)
{
    uint32_t words[HYTHE_WORDS];

    words[HYTHE_WORD_PLACE] = buffer->words[HYTHE_WORD_PLACE];
    words[HYTHE_WORD_GENERATION] = buffer->words[HYTHE_WORD_GENERATION];
    words[HYTHE_WORD_OFFSET] = buffer->words[HYTHE_WORD_OFFSET];
    words[HYTHE_WORD_LENGTH] = length;
    hythe_outbox_push(&endpoint->outbox, endpoint->link->port, words);
}

/* Is the session of a held buffer over? Serves the link first, so that an answer of "no" is as fresh as can be. */
static int is_over(const struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;

    return hythe_link_serve(endpoint->link) != HYTHE_OK || !hythe_session_is_current(endpoint);
}

/* Pushes a held buffer back over its own endpoint with this length word. */
static int give_away(struct hythe_buffer *buffer, uint32_t length)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;
    int result;

    if (is_over(buffer)) {
        return drop(buffer, HYTHE_STALE);
    }
    result = endpoint->quarantined ? HYTHE_E_QUARANTINED : room(endpoint);
    if (result == HYTHE_E_FULL && endpoint->direction == HYTHE_TO_CORE) {
        /* Linux never has more buffers out than the queue has places, so its head cannot be true. */
        result = quarantine(endpoint);
    }
    switch (result) {
    case HYTHE_OK:
        push(endpoint, buffer, length);
        let_go(buffer);
        hythe_link_ring(endpoint->link);
        return HYTHE_OK;
    case HYTHE_E_FULL:
        return HYTHE_E_FULL;
    case HYTHE_E_DETACHED:
        return drop(buffer, HYTHE_STALE);
    default:
        return drop(buffer, HYTHE_E_QUARANTINED);
    }
}

static int try_publish(struct hythe_buffer *buffer, uint32_t length)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;
    struct hythe_link *link = endpoint->link;
    int result;

    hythe_link_lock(link);
    result = give_away(buffer, length);
    if (result == HYTHE_OK) {
        endpoint->counters.published++;
    }
    hythe_link_unlock(link);
    return result;
}

/* 1 if `to` can take the buffer now, else a negative result; the buffer is still held. */
static int target_ready(struct hythe_endpoint *to)
{
    int result = usable(to);

    return result == HYTHE_OK ? room(to) : result;
}

static int try_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to)
{
    struct hythe_endpoint *from = buffer->endpoint;
    struct hythe_link *link = from->link;
    int result;

    if (is_over(buffer)) {
        return drop(buffer, HYTHE_STALE);
    }
    /* The credit must find room before the buffer is given to anybody: both happen, or neither. */
    result = from->quarantined ? HYTHE_E_QUARANTINED : room(from);
    if (result == HYTHE_E_DETACHED) {
        return drop(buffer, HYTHE_STALE);
    }
    if (result != HYTHE_OK) {
        if (result == HYTHE_E_FULL) {
            (void)quarantine(from);
        }
        return drop(buffer, HYTHE_STALE);
    }
    result = target_ready(to);
    if (result != HYTHE_OK) {
        return result;
    }
    push(to, buffer, buffer->words[HYTHE_WORD_LENGTH]);
    push(from, buffer, HYTHE_LENGTH_CREDIT);
    from->counters.handed_on++;
    let_go(buffer);
    hythe_link_ring(link);
    return HYTHE_OK;
}

static int locked_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to)
{
    struct hythe_link *link = buffer->endpoint->link;
    int result;

    hythe_link_lock(link);
    result = try_forward(buffer, to);
    hythe_link_unlock(link);
    return result;
}

static int is_held(const struct hythe_buffer *buffer, uint32_t direction)
{
    return buffer != NULL && buffer->endpoint != NULL && buffer->endpoint->direction == direction;
}

/* ---- Public ---- */

int hythe_link_wait(struct hythe_link *link, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    hythe_wait_begin(&wait, link, 0, timeout_ms);
    do {
        result = hythe_link_service(link);
    } while (result != HYTHE_OK && hythe_wait_again(&wait));
    return result;
}

int hythe_receive(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    return take(endpoint, HYTHE_TO_CORE, buffer, timeout_ms);
}

int hythe_lease(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer, uint32_t timeout_ms)
{
    return take(endpoint, HYTHE_FROM_CORE, buffer, timeout_ms);
}

int hythe_publish(struct hythe_buffer *buffer, uint32_t length, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    struct hythe_link *link;
    int result;

    if (!is_held(buffer, HYTHE_FROM_CORE)) {
        return HYTHE_E_ARGUMENT;
    }
    if (length > buffer->length) {
        return HYTHE_E_LENGTH;
    }
    link = buffer->endpoint->link;
    /* The whole slot up to the end of the payload: programs may write into the headroom, too. */
    hythe_clean(link->port, buffer->slot, (size_t)(buffer->data - buffer->slot) + length);
    hythe_wait_begin(&wait, link, buffer->endpoint->spin_checks, timeout_ms);
    do {
        result = try_publish(buffer, length);
    } while (result == HYTHE_E_FULL && hythe_wait_again(&wait));
    return result;
}

int hythe_release(struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint;
    uint32_t length;
    int result;

    if (buffer == NULL || buffer->endpoint == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    endpoint = buffer->endpoint;
    length = endpoint->direction == HYTHE_FROM_CORE ? HYTHE_LENGTH_UNUSED : buffer->words[HYTHE_WORD_LENGTH];
    hythe_link_lock(endpoint->link);
    result = give_away(buffer, length);
    if (result == HYTHE_OK) {
        endpoint->counters.returned++;
    }
    hythe_link_unlock(endpoint->link);
    return result;
}

int hythe_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (!is_held(buffer, HYTHE_TO_CORE) || to == NULL || to->direction != HYTHE_FROM_CORE ||
        to->link != buffer->endpoint->link) {
        return HYTHE_E_ARGUMENT;
    }
    hythe_wait_begin(&wait, to->link, to->spin_checks, timeout_ms);
    do {
        result = locked_forward(buffer, to);
    } while (result == HYTHE_E_FULL && hythe_wait_again(&wait));
    return result;
}

int hythe_buffer_is_stale(const struct hythe_buffer *buffer)
{
    const struct hythe_endpoint *endpoint = buffer->endpoint;
    int stale;

    if (endpoint == NULL) {
        return 1;
    }
    hythe_link_lock(endpoint->link);
    stale = !hythe_session_is_current(endpoint);
    hythe_link_unlock(endpoint->link);
    return stale;
}

void hythe_endpoint_counters(const struct hythe_endpoint *endpoint, struct hythe_counters *counters)
{
    hythe_link_lock(endpoint->link);
    *counters = endpoint->counters;
    hythe_link_unlock(endpoint->link);
}
