/*
 * Buffers to Linux: publish, release, forward.
 *
 * Each public function is a loop of "try under the lock, then wait"; the tries decide, and never
 * wait. A held buffer ends here only: let_go() is called once for each.
 */
#include "link.h"
#include "shared.h"
#include "wait.h"

/* ---- One buffer, one flow ---- */

/* The program no longer has the buffer. The last one of an old session lets the new one begin. */
static void let_go(struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;

    if (endpoint->link->tracker != NULL) {
        endpoint->link->tracker->gave(endpoint->link->tracker, buffer);
    }
    endpoint->flows[buffer->port].held--;
    endpoint->counters.held--;
    buffer->endpoint = NULL;
    if (endpoint->link->pending || endpoint->link->state != HYTHE_STATE_UP) {
        (void)hythe_link_serve(endpoint->link);
    }
}

/* Rings Linux if it sleeps for what was pushed over these flows of an endpoint. */
static void ring_for(struct hythe_endpoint *endpoint, uint32_t ports)
{
    /* Our tail before Linux's "I sleep": its mirror image there is "I sleep" before our tail. */
    hythe_fence();
    if (hythe_flows_are_awaited(endpoint, ports)) {
        hythe_link_ring(endpoint->link);
    }
}

/* Ends a buffer that can go nowhere any more. */
static int drop(struct hythe_buffer *buffer, int result)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;

    hythe_endpoint_count(endpoint, &endpoint->counters.dropped, HYTHE_RECORD_AT_DROPPED);
    let_go(buffer);
    return result;
}

/*
 * Is the session of a held buffer over? Call after hythe_link_serve(), so that the answer is as
 * fresh as can be.
 */
static int is_over(const struct hythe_buffer *buffer)
{
    return !hythe_session_is_current(buffer->endpoint, buffer->port);
}

static void push(const struct hythe_flow_view *view, const struct hythe_buffer *buffer,
                 uint32_t length, uint32_t references)
{
    const struct hythe_outgoing outgoing = {buffer->words, length, references};

    hythe_outbox_push(view, &outgoing);
}

/*
 * Can the buffer go back over the flow it came with? HYTHE_OK, HYTHE_STALE or HYTHE_E_QUARANTINED.
 * A return always finds free capacity unless Linux has more buffers out than the queue has entries.
 */
static int returnable(const struct hythe_buffer *buffer, const struct hythe_flow_view *view)
{
    int found;

    if (view->flow->quarantined) {
        return is_over(buffer) ? HYTHE_STALE : HYTHE_E_QUARANTINED;
    }
    found = hythe_outbox_free(view, view->capacity);
    if (is_over(buffer)) {
        return HYTHE_STALE;
    }
    return found == HYTHE_QUEUE_OK ? HYTHE_OK
                                   : hythe_flow_quarantine(buffer->endpoint, buffer->port);
}

void hythe_request_mark(const struct hythe_buffer *buffer, uint32_t kind)
{
    /* Slots begin at multiples of 64. The number behind the kind stays as the client wrote it. */
    const struct hythe_port *port = buffer->endpoint->link->port;
    volatile uint32_t *header = hythe_word(buffer->slot, 0);

    /* A line from an earlier use of the slot has the number of that time, which would go back. */
    hythe_invalidate(port, header, sizeof *header);
    hythe_store_relaxed(header, kind);
    hythe_clean(port, header, sizeof *header);
}

int hythe_give_back(struct hythe_buffer *buffer, uint32_t length, uint32_t *counter)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;
    struct hythe_flow_view view;
    int result = HYTHE_STALE;

    if (hythe_link_serve(endpoint->link) == HYTHE_OK) {
        hythe_flow_look(&view, endpoint, buffer->port);
        result = returnable(buffer, &view);
    }
    if (result != HYTHE_OK) {
        return drop(buffer, result);
    }
    push(&view, buffer, length, buffer->words[HYTHE_WORD_REFERENCES]);
    *counter += 1;
    ring_for(endpoint, (uint32_t)1 << buffer->port);
    let_go(buffer);
    return HYTHE_OK;
}

/* ---- One buffer, all flows of an endpoint ---- */

/* What a message would find at the ports of an endpoint now; bit p for port p. */
struct survey {
    /* Fewer entries wait than the window allows. */
    uint32_t ready;
    /* No free capacity; and of those, the ones that are worth waiting for. */
    uint32_t full;
    uint32_t awaited;
    uint32_t quarantined;
};

static void survey_flow(struct hythe_endpoint *endpoint, uint32_t port, struct survey *survey)
{
    uint32_t bit = (uint32_t)1 << port;
    struct hythe_flow_view view;
    int found = HYTHE_QUEUE_BROKEN;

    hythe_flow_look(&view, endpoint, port);
    if (!view.flow->quarantined) {
        found = hythe_outbox_free(&view, view.flow->window);
    }
    /* A session that ended meanwhile: what we read proves nothing. */
    if (!hythe_session_is_current(endpoint, port)) {
        return;
    }
    switch (found) {
    case HYTHE_QUEUE_OK:
        survey->ready |= bit;
        break;
    case HYTHE_QUEUE_NOT_NOW:
        survey->full |= bit;
        survey->awaited |= view.flow->late ? 0 : bit;
        break;
    default:
        survey->quarantined |= bit;
        if (!view.flow->quarantined) {
            (void)hythe_flow_quarantine(endpoint, port);
        }
        break;
    }
}

/*
 * Looks at all attached ports. HYTHE_OK: deliver; HYTHE_E_FULL: wait, or if this is the last try:
 * none has free capacity; HYTHE_E_DETACHED and HYTHE_E_QUARANTINED: there is no port to deliver to.
 */
static int survey_ports(struct hythe_endpoint *endpoint, struct survey *survey, int last_try)
{
    static const struct survey nothing = {0, 0, 0, 0};
    uint32_t port;

    *survey = nothing;
    for (port = 0; endpoint->attached >> port != 0; port++) {
        if (hythe_flow_is_attached(endpoint, port)) {
            survey_flow(endpoint, port, survey);
        }
    }
    if ((survey->ready | survey->full) == 0) {
        return survey->quarantined != 0 ? HYTHE_E_QUARANTINED : HYTHE_E_DETACHED;
    }
    if (survey->ready == 0 || (survey->awaited != 0 && !last_try)) {
        return HYTHE_E_FULL;
    }
    return HYTHE_OK;
}

static void miss(struct hythe_endpoint *endpoint, const struct hythe_flow_view *view)
{
    /* Our own word, for people to read: nothing depends on it. */
    volatile uint32_t *dropped = hythe_word(view->core_line, HYTHE_FLOW_AT_DROPPED);

    hythe_write(view->port, dropped, hythe_load_relaxed(dropped) + 1);
    endpoint->counters.missed++;
}

static uint32_t count_bits(uint32_t bits)
{
    uint32_t count = 0;

    for (; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

/* Divides the references among the ready ports and pushes: one for each but the last. */
static void deliver(struct hythe_endpoint *endpoint, const struct survey *survey,
                    const struct hythe_buffer *buffer, uint32_t length)
{
    uint32_t reached = survey->ready | survey->full;
    uint32_t references = buffer->words[HYTHE_WORD_REFERENCES];
    uint32_t left = count_bits(survey->ready);
    struct hythe_flow_view view;
    uint32_t port;

    for (port = 0; reached >> port != 0; port++) {
        uint32_t bit = (uint32_t)1 << port;
        if ((reached & bit) == 0) {
            continue;
        }
        hythe_flow_look(&view, endpoint, port);
        if ((survey->ready & bit) != 0 && references != 0) {
            uint32_t share = left == 1 ? references : 1;
            push(&view, buffer, length, share);
            references -= share;
            left--;
        } else {
            view.flow->late |= (survey->full & bit) != 0;
            miss(endpoint, &view);
        }
    }
}

/* No port of the endpoint has free capacity. */
static int full(struct hythe_endpoint *endpoint, int last_try)
{
    if (last_try) {
        hythe_endpoint_count(endpoint, &endpoint->counters.full, HYTHE_RECORD_AT_FULL);
    }
    return HYTHE_E_FULL;
}

static int try_publish(struct hythe_buffer *buffer, uint32_t length, int last_try)
{
    struct hythe_endpoint *endpoint = buffer->endpoint;
    struct survey survey;
    int result;

    if (hythe_link_serve(endpoint->link) != HYTHE_OK) {
        return drop(buffer, HYTHE_STALE);
    }
    result = survey_ports(endpoint, &survey, last_try);
    if (result == HYTHE_E_FULL) {
        return full(endpoint, last_try);
    }
    if (result != HYTHE_OK) {
        return drop(buffer, is_over(buffer) ? HYTHE_STALE : HYTHE_E_QUARANTINED);
    }
    deliver(endpoint, &survey, buffer, length);
    endpoint->counters.published++;
    ring_for(endpoint, survey.ready);
    let_go(buffer);
    return HYTHE_OK;
}

static int try_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to, int last_try)
{
    struct hythe_endpoint *from = buffer->endpoint;
    struct hythe_flow_view view;
    struct survey survey;
    int result;

    if (hythe_link_serve(from->link) != HYTHE_OK) {
        return drop(buffer, HYTHE_STALE);
    }
    /* The credit must find free capacity before anything is delivered: both happen, or neither. */
    hythe_flow_look(&view, from, buffer->port);
    if (returnable(buffer, &view) != HYTHE_OK) {
        return drop(buffer, HYTHE_STALE);
    }
    result = survey_ports(to, &survey, last_try);
    if (result == HYTHE_E_FULL) {
        return full(to, last_try);
    }
    if (result != HYTHE_OK) {
        return result;
    }
    deliver(to, &survey, buffer, buffer->words[HYTHE_WORD_LENGTH]);
    push(&view, buffer, HYTHE_LENGTH_CREDIT, 0);
    from->counters.forwarded++;
    hythe_fence();
    if (hythe_flows_are_awaited(to, survey.ready) ||
        hythe_flows_are_awaited(from, (uint32_t)1 << buffer->port)) {
        hythe_link_ring(from->link);
    }
    let_go(buffer);
    return HYTHE_OK;
}

static int locked_publish(struct hythe_buffer *buffer, uint32_t length, int last_try)
{
    struct hythe_link *link = buffer->endpoint->link;
    int result;

    hythe_link_lock(link);
    result = try_publish(buffer, length, last_try);
    hythe_link_unlock(link);
    return result;
}

static int locked_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to, int last_try)
{
    struct hythe_link *link = to->link;
    int result;

    hythe_link_lock(link);
    result = try_forward(buffer, to, last_try);
    hythe_link_unlock(link);
    return result;
}

/* What a program may write of a leased slot, from the slot's first byte on. */
static size_t written_bytes(const struct hythe_buffer *buffer)
{
    return (size_t)(buffer->data - buffer->slot) + buffer->length;
}

static int is_held_message(const struct hythe_buffer *buffer, uint32_t direction)
{
    return buffer != NULL && buffer->endpoint != NULL && buffer->endpoint->direction == direction &&
           buffer->endpoint->kind == HYTHE_KIND_MESSAGES;
}

/* ---- Public ---- */

int hythe_publish(struct hythe_buffer *buffer, uint32_t length, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    struct hythe_link *link;
    int result;

    if (!is_held_message(buffer, HYTHE_FROM_CORE)) {
        return HYTHE_E_ARGUMENT;
    }
    if (length > buffer->length) {
        return HYTHE_E_LENGTH;
    }
    link = buffer->endpoint->link;
    /*
     * The whole slot, not the message alone: programs write into the headroom, too, and a line that
     * stayed dirty behind the message would be written back into what the slot has next.
     */
    hythe_clean(link->port, buffer->slot, written_bytes(buffer));
    hythe_wait_begin(&wait, link, buffer->endpoint->spin_checks, timeout_ms);
    do {
        result = locked_publish(buffer, length, 0);
    } while (result == HYTHE_E_FULL && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result == HYTHE_E_FULL ? locked_publish(buffer, length, 1) : result;
}

int hythe_release(struct hythe_buffer *buffer)
{
    struct hythe_link *link;
    uint32_t length;
    int result;

    if (buffer == NULL || buffer->endpoint == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    link = buffer->endpoint->link;
    length = buffer->words[HYTHE_WORD_LENGTH];
    if (buffer->endpoint->direction == HYTHE_FROM_CORE) {
        length = HYTHE_LENGTH_UNUSED;
        /* The program may have begun to write: no line may be written back after the return. */
        hythe_invalidate(link->port, buffer->slot, written_bytes(buffer));
    } else if (buffer->endpoint->kind == HYTHE_KIND_REQUESTS) {
        hythe_invalidate(link->port, buffer->data, length);
        hythe_request_mark(buffer, HYTHE_REQUEST_GIVEN_UP);
        length = 0;
    }
    hythe_link_lock(link);
    result = hythe_give_back(buffer, length, &buffer->endpoint->counters.returned);
    hythe_link_unlock(link);
    return result;
}

int hythe_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (!is_held_message(buffer, HYTHE_TO_CORE) || to == NULL || to->direction != HYTHE_FROM_CORE ||
        to->kind != HYTHE_KIND_MESSAGES || to->link != buffer->endpoint->link) {
        return HYTHE_E_ARGUMENT;
    }
    hythe_wait_begin(&wait, to->link, to->spin_checks, timeout_ms);
    do {
        result = locked_forward(buffer, to, 0);
    } while (result == HYTHE_E_FULL && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result == HYTHE_E_FULL ? locked_forward(buffer, to, 1) : result;
}
