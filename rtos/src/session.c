/*
 * Attachments: Linux writes a session into a flow line, the core echoes it once nothing of the old
 * one is left. Called by link.c, take.c and give.c. Never touches a flow but the one it serves.
 */
#include "link.h"
#include "shared.h"

HYTHE_ASSERT_AT_COMPILE(flow_has_32_bytes, sizeof(struct hythe_flow) == 32);

/* A word of a flow's Linux line. */
static const volatile uint32_t *linux_flow_word(const struct hythe_endpoint *endpoint,
                                                uint32_t port, uint32_t offset)
{
    return hythe_const_word(endpoint->linux_lines,
                            port * endpoint->link->geometry.line_bytes + offset);
}

void hythe_flow_look(struct hythe_flow_view *view, struct hythe_endpoint *endpoint, uint32_t port)
{
    const struct hythe_link *link = endpoint->link;
    uint32_t line = port * link->geometry.line_bytes;
    uint32_t entries = port * link->geometry.capacity * HYTHE_ENTRY_BYTES;

    view->flow = &endpoint->flows[port];
    view->port = link->port;
    view->linux_line = endpoint->linux_lines + line;
    view->core_line = endpoint->core_lines + line;
    view->linux_entries = endpoint->linux_entries + entries;
    view->core_entries = endpoint->core_entries + entries;
    view->capacity = link->geometry.capacity;
}

int hythe_flow_is_quiet(const struct hythe_endpoint *endpoint, uint32_t port)
{
    const struct hythe_link *link = endpoint->link;
    const struct hythe_flow *flow = &endpoint->flows[port];
    const volatile uint32_t *tail = linux_flow_word(endpoint, port, HYTHE_FLOW_AT_TAIL);
    size_t at = (size_t)((const volatile uint8_t *)tail - link->base);

    /* Another task may be following a new agent, so that these belong to two geometries. */
    return at < link->link_bytes - sizeof *tail && !flow->quarantined &&
           hythe_read(link->port, tail) == flow->inbox_head;
}

int hythe_flows_are_awaited(const struct hythe_endpoint *endpoint, uint32_t ports)
{
    uint32_t port;

    for (port = 0; ports >> port != 0; port++) {
        if ((ports >> port & 1u) != 0 &&
            hythe_read(endpoint->link->port,
                       linux_flow_word(endpoint, port, HYTHE_FLOW_AT_WANTED)) != 0) {
            return 1;
        }
    }
    return 0;
}

void hythe_violation(struct hythe_endpoint *endpoint)
{
    hythe_endpoint_count(endpoint, &endpoint->counters.violations, HYTHE_RECORD_AT_VIOLATIONS);
}

int hythe_flow_quarantine(struct hythe_endpoint *endpoint, uint32_t port)
{
    endpoint->flows[port].quarantined = 1;
    hythe_violation(endpoint);
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

/* Where the lines and entries of the endpoint's flows begin. */
static void find_flows(struct hythe_endpoint *endpoint, const struct hythe_layout *layout)
{
    const struct hythe_link *link = endpoint->link;
    uint32_t first = endpoint->index * link->geometry.ports;
    uint32_t lines = first * link->geometry.line_bytes;
    uint32_t entries = first * link->geometry.capacity * HYTHE_ENTRY_BYTES;

    endpoint->linux_lines = link->base + layout->linux_flow + lines;
    endpoint->core_lines = link->core + layout->core_flow + lines;
    endpoint->linux_entries = link->base + layout->linux_entries + entries;
    endpoint->core_entries = link->core + layout->core_entries + entries;
}

void hythe_session_begin(struct hythe_endpoint *endpoint, const struct hythe_layout *layout)
{
    struct hythe_flow_view view;
    uint32_t port;

    find_flows(endpoint, layout);
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
        hythe_violation(endpoint);
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
    /* It stands there already, unless somebody wrote over it: then Linux attached for that. */
    write_core(view, HYTHE_FLOW_AT_TAIL, flow->outbox_tail);
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

    return link->state == HYTHE_STATE_UP && agent == link->linux_session && session != 0 &&
           hythe_read(link->port, linux_flow_word(endpoint, port, HYTHE_FLOW_AT_SESSION)) ==
               session;
}
