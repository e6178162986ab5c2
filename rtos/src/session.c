/*
 * Attachments: Linux writes a session into a flow line, the core echoes it once nothing of the old
 * one is left. Called by link.c, take.c and give.c. Never touches a flow but the one it serves.
 */
#include "link.h"
#include "shared.h"

HYTHE_ASSERT_AT_COMPILE(flow_has_32_bytes, sizeof(struct hythe_flow) == 32);

static uint32_t flow_number(const struct hythe_endpoint *endpoint, uint32_t port)
{
    return endpoint->index * endpoint->link->geometry.ports + port;
}

void hythe_flow_look(struct hythe_flow_view *view, struct hythe_endpoint *endpoint, uint32_t port)
{
    const struct hythe_link *link = endpoint->link;
    uint32_t number = flow_number(endpoint, port);
    uint32_t line = number * link->geometry.line_bytes;
    uint32_t entries = number * link->geometry.capacity * HYTHE_ENTRY_BYTES;

    view->flow = &endpoint->flows[port];
    view->port = link->port;
    view->linux_line = link->base + link->linux_flow + line;
    view->core_line = link->core + link->core_flow + line;
    view->linux_entries = link->base + link->linux_entries + entries;
    view->core_entries = link->core + link->core_entries + entries;
    view->capacity = link->geometry.capacity;
}

int hythe_flow_is_attached(const struct hythe_endpoint *endpoint, uint32_t port)
{
    return (endpoint->attached >> port & 1u) != 0;
}

int hythe_flow_quarantine(struct hythe_endpoint *endpoint, uint32_t port)
{
    endpoint->flows[port].quarantined = 1;
    endpoint->counters.violations++;
    return HYTHE_E_QUARANTINED;
}

static void set_attached(struct hythe_endpoint *endpoint, uint32_t port, int is_attached)
{
    uint32_t bit = (uint32_t)1 << port;

    endpoint->attached = is_attached ? endpoint->attached | bit : endpoint->attached & ~bit;
}

static uint32_t linux_word(const struct hythe_flow_view *view, uint32_t offset)
{
    return hythe_read(view->port, hythe_const_word(view->linux_line, offset));
}

static void write_core(const struct hythe_flow_view *view, uint32_t offset, uint32_t value)
{
    hythe_write(view->port, hythe_word(view->core_line, offset), value);
}

void hythe_session_begin(struct hythe_endpoint *endpoint)
{
    struct hythe_flow_view view;
    uint32_t port;

    endpoint->attached = 0;
    endpoint->next_port = 0;
    for (port = 0; port < endpoint->link->geometry.ports; port++) {
        struct hythe_flow *flow = &endpoint->flows[port];
        hythe_flow_look(&view, endpoint, port);
        write_core(&view, HYTHE_FLOW_AT_SESSION, 0);
        write_core(&view, HYTHE_FLOW_AT_DROPPED, 0);
        /*
         * Our own word of an earlier life: no counter jumps under a reader who is still attached.
         */
        flow->outbox_tail = hythe_load_relaxed(hythe_word(view.core_line, HYTHE_FLOW_AT_TAIL));
        flow->session = 0;
        flow->quarantined = 0;
        flow->late = 0;
        /* Entries before this session's `start` are void, and we cannot tell which they are. */
        flow->void_session = linux_word(&view, HYTHE_FLOW_AT_SESSION);
    }
}

/* What Linux wrote before its session. */
struct claim {
    uint32_t session;
    uint32_t start;
    uint32_t window;
};

static uint32_t checked_window(struct hythe_endpoint *endpoint, uint32_t claimed)
{
    uint32_t capacity = endpoint->link->geometry.capacity;

    if (endpoint->direction != HYTHE_FROM_CORE || endpoint->kind != HYTHE_KIND_MESSAGES) {
        return capacity;
    }
    if (claimed == 0 || claimed > capacity) {
        endpoint->counters.violations++;
        return 1;
    }
    return claimed;
}

static void attach(struct hythe_endpoint *endpoint, const struct hythe_flow_view *view,
                   const struct claim *claim)
{
    struct hythe_flow *flow = view->flow;

    flow->inbox_head = claim->start;
    write_core(view, HYTHE_FLOW_AT_HEAD, claim->start);
    flow->head_seen = flow->outbox_tail;
    write_core(view, HYTHE_FLOW_AT_START, flow->outbox_tail);
    flow->settled = 0;
    flow->quarantined = 0;
    flow->late = 0;
    flow->void_session = 0;
    flow->session = claim->session;
    if (claim->session != 0) {
        flow->window = checked_window(endpoint, claim->window) & 0xFFFFu;
        endpoint->counters.attachments++;
        flow->attachment = endpoint->counters.attachments;
    }
    if (endpoint->kind == HYTHE_KIND_EVENTS) {
        /* Events of an earlier session are not ours. */
        write_core(view, HYTHE_FLOW_AT_SEEN_LOW, linux_word(view, HYTHE_FLOW_AT_RAISED_LOW));
        write_core(view, HYTHE_FLOW_AT_SEEN_HIGH, linux_word(view, HYTHE_FLOW_AT_RAISED_HIGH));
    }
    write_core(view, HYTHE_FLOW_AT_SESSION, claim->session);
}

/* 1 if an echo was written. */
static uint32_t serve_flow(struct hythe_endpoint *endpoint, uint32_t port)
{
    struct hythe_flow *flow = &endpoint->flows[port];
    struct hythe_flow_view view;
    struct claim claim;

    hythe_flow_look(&view, endpoint, port);
    claim.session = linux_word(&view, HYTHE_FLOW_AT_SESSION);
    if (claim.session == flow->session) {
        set_attached(endpoint, port, claim.session != 0);
        return 0;
    }
    if (claim.session == flow->void_session && claim.session != 0) {
        return 0;
    }
    set_attached(endpoint, port, 0);
    claim.start = linux_word(&view, HYTHE_FLOW_AT_START);
    claim.window = linux_word(&view, HYTHE_FLOW_AT_WINDOW);
    if (flow->held != 0 || linux_word(&view, HYTHE_FLOW_AT_SESSION) != claim.session) {
        endpoint->link->pending = 1;
        return 0;
    }
    attach(endpoint, &view, &claim);
    set_attached(endpoint, port, claim.session != 0);
    return 1;
}

uint32_t hythe_session_serve(struct hythe_endpoint *endpoint)
{
    uint32_t echoes = 0;
    uint32_t port;

    for (port = 0; port < endpoint->link->geometry.ports; port++) {
        echoes += serve_flow(endpoint, port);
    }
    return echoes;
}

int hythe_session_is_current(const struct hythe_endpoint *endpoint, uint32_t port)
{
    /* The agent's session first: after an agent change the flow lines may have moved. */
    const struct hythe_link *link = endpoint->link;
    uint32_t session = endpoint->flows[port].session;
    uint32_t agent = hythe_read(link->port, hythe_const_word(link->base, HYTHE_LINUX_AT_SESSION));
    uint32_t line = flow_number(endpoint, port) * link->geometry.line_bytes;
    const volatile uint32_t *word =
        hythe_const_word(link->base, link->linux_flow + line + HYTHE_FLOW_AT_SESSION);

    return link->state == HYTHE_STATE_UP && agent == link->linux_session && session != 0 &&
           hythe_read(link->port, word) == session;
}
