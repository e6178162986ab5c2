/*
 * Events over an endpoint: sets of bits that say "look", without a buffer (spec/link.md, "Events").
 * Linked only into programs that use them. Never says what happened, nor how often.
 */
#include "link.h"
#include "shared.h"
#include "wait.h"

static int is_event_endpoint(const struct hythe_endpoint *endpoint, uint32_t direction)
{
    return endpoint != NULL && endpoint->kind == HYTHE_KIND_EVENTS &&
           endpoint->direction == direction;
}

static uint32_t linux_word(const struct hythe_flow_view *view, uint32_t offset)
{
    return hythe_read(view->port, hythe_const_word(view->linux_line, offset));
}

/* ---- Raising ---- */

/* Flips those of 32 events that are not pending. Returns the port's bit if there were any. */
static uint32_t raise_word(const struct hythe_flow_view *view, uint32_t raised_at, uint32_t seen_at,
                           uint32_t events)
{
    /* Our own word: a wrong one costs this flow's events only. */
    volatile uint32_t *word = hythe_word(view->core_line, raised_at);
    uint32_t raised = hythe_load_relaxed(word);
    uint32_t pending = raised ^ linux_word(view, seen_at);

    if ((events & ~pending) == 0) {
        return 0;
    }
    hythe_write(view->port, word, raised ^ (events & ~pending));
    return 1;
}

static int try_raise(struct hythe_endpoint *endpoint, uint64_t events)
{
    struct hythe_link *link = endpoint->link;
    int result = hythe_link_serve(link);
    struct hythe_flow_view view;
    uint32_t raised = 0;
    uint32_t port;

    if (result != HYTHE_OK) {
        return result;
    }
    result = HYTHE_E_DETACHED;
    /* What the events announce before `seen`: a reader that took them earlier looks after it. */
    hythe_fence();
    for (port = 0; port < link->geometry.ports; port++) {
        if (hythe_flow_is_attached(endpoint, port) && hythe_session_is_current(endpoint, port)) {
            hythe_flow_look(&view, endpoint, port);
            raised |= raise_word(&view, HYTHE_FLOW_AT_RAISED_LOW, HYTHE_FLOW_AT_SEEN_LOW,
                                 (uint32_t)events);
            raised |= raise_word(&view, HYTHE_FLOW_AT_RAISED_HIGH, HYTHE_FLOW_AT_SEEN_HIGH,
                                 (uint32_t)(events >> 32));
            result = HYTHE_OK;
        }
    }
    hythe_fence();
    if (hythe_flows_are_awaited(endpoint, raised)) {
        hythe_link_ring(link);
    }
    return result;
}

/* ---- Waiting ---- */

/* Takes those of 32 events that are pending. */
static uint32_t take_word(const struct hythe_flow_view *view, uint32_t raised, uint32_t seen_at)
{
    volatile uint32_t *word = hythe_word(view->core_line, seen_at);
    uint32_t pending = raised ^ hythe_load_relaxed(word);

    if (pending != 0) {
        hythe_write(view->port, word, raised);
    }
    return pending;
}

static uint64_t take_events(struct hythe_endpoint *endpoint, uint32_t port)
{
    struct hythe_flow_view view;
    uint32_t raised_low;
    uint32_t raised_high;
    uint32_t low;

    hythe_flow_look(&view, endpoint, port);
    raised_low = linux_word(&view, HYTHE_FLOW_AT_RAISED_LOW);
    raised_high = linux_word(&view, HYTHE_FLOW_AT_RAISED_HIGH);
    if (!hythe_session_is_current(endpoint, port)) {
        return 0;
    }
    low = take_word(&view, raised_low, HYTHE_FLOW_AT_SEEN_LOW);
    return (uint64_t)take_word(&view, raised_high, HYTHE_FLOW_AT_SEEN_HIGH) << 32 | low;
}

static int try_wait(struct hythe_endpoint *endpoint, uint64_t *events)
{
    struct hythe_link *link = endpoint->link;
    int result = hythe_link_serve(link);
    uint32_t port;

    if (result != HYTHE_OK) {
        return result;
    }
    for (port = 0; port < link->geometry.ports; port++) {
        if (hythe_flow_is_attached(endpoint, port)) {
            *events |= take_events(endpoint, port);
        }
    }
    /* `seen` before what the events announce: a raise from here on is a new one. */
    hythe_fence();
    if (*events != 0) {
        return HYTHE_OK;
    }
    return endpoint->attached != 0 ? HYTHE_E_TIMEOUT : HYTHE_E_DETACHED;
}

static int locked_wait(struct hythe_endpoint *endpoint, uint64_t *events)
{
    struct hythe_link *link = endpoint->link;
    int result;

    hythe_link_lock(link);
    result = try_wait(endpoint, events);
    hythe_link_unlock(link);
    return result;
}

/* ---- Public ---- */

int hythe_event_raise(struct hythe_endpoint *endpoint, uint64_t events)
{
    int result;

    if (!is_event_endpoint(endpoint, HYTHE_FROM_CORE)) {
        return HYTHE_E_ARGUMENT;
    }
    hythe_link_lock(endpoint->link);
    result = try_raise(endpoint, events);
    hythe_link_unlock(endpoint->link);
    return result;
}

int hythe_event_wait(struct hythe_endpoint *endpoint, uint64_t *events, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (!is_event_endpoint(endpoint, HYTHE_TO_CORE) || events == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    *events = 0;
    hythe_wait_begin(&wait, endpoint->link, endpoint->spin_checks, timeout_ms);
    do {
        result = locked_wait(endpoint, events);
    } while (result != HYTHE_OK && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result;
}
