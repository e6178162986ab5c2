/*
 * Attachments of one endpoint: Linux writes a session, the core echoes it once nothing of the old one is left.
 */
#include "link.h"

#include "shared.h"

static uint32_t linux_flow_word(const struct hythe_endpoint *endpoint, uint32_t offset)
{
    return hythe_read(endpoint->link->port, &endpoint->linux_flow[offset / sizeof(uint32_t)]);
}

static void write_flow(struct hythe_endpoint *endpoint, uint32_t offset, uint32_t value)
{
    hythe_write(endpoint->link->port, &endpoint->core_flow[offset / sizeof(uint32_t)], value);
}

void hythe_session_begin(struct hythe_endpoint *endpoint, uint32_t index, const struct hythe_layout *layout)
{
    const struct hythe_link *link = endpoint->link;
    uint32_t flow = index * link->geometry.line_bytes;
    uint32_t ring = index * link->geometry.capacity * HYTHE_ENTRY_BYTES;

    endpoint->linux_flow = hythe_const_word(link->base, layout->linux_flow + flow);
    endpoint->core_flow = hythe_word(link->core, layout->core_flow + flow);
    write_flow(endpoint, HYTHE_FLOW_AT_SESSION, 0);

    endpoint->inbox.entries = link->base + layout->linux_entries + ring;
    endpoint->inbox.tail_word = &endpoint->linux_flow[HYTHE_FLOW_AT_TAIL / sizeof(uint32_t)];
    endpoint->inbox.head_word = &endpoint->core_flow[HYTHE_FLOW_AT_HEAD / sizeof(uint32_t)];
    endpoint->inbox.capacity = link->geometry.capacity;

    endpoint->outbox.entries = link->core + layout->core_entries + ring;
    endpoint->outbox.tail_word = &endpoint->core_flow[HYTHE_FLOW_AT_TAIL / sizeof(uint32_t)];
    endpoint->outbox.head_word = &endpoint->linux_flow[HYTHE_FLOW_AT_HEAD / sizeof(uint32_t)];
    endpoint->outbox.capacity = link->geometry.capacity;
    /* Our own words of an earlier life: going on from there, no counter jumps under a reader who is still attached. */
    endpoint->outbox.tail = hythe_load_relaxed(endpoint->outbox.tail_word);

    endpoint->session = 0;
    endpoint->quarantined = 0;
    /* Descriptors before this session's `start` are void, and we cannot tell which they are. */
    endpoint->void_session = linux_flow_word(endpoint, HYTHE_FLOW_AT_SESSION);
}

static void attach(struct hythe_endpoint *endpoint, uint32_t session, uint32_t start)
{
    const struct hythe_port *port = endpoint->link->port;

    endpoint->inbox.head = start;
    hythe_write(port, endpoint->inbox.head_word, start);
    endpoint->outbox.head_seen = endpoint->outbox.tail;
    endpoint->outbox.settled = 0;
    write_flow(endpoint, HYTHE_FLOW_AT_START, endpoint->outbox.tail);
    endpoint->quarantined = 0;
    endpoint->session = session;
    if (session != 0) {
        endpoint->counters.attachments++;
    }
    write_flow(endpoint, HYTHE_FLOW_AT_SESSION, session);
}

int hythe_session_serve(struct hythe_endpoint *endpoint)
{
    uint32_t session = linux_flow_word(endpoint, HYTHE_FLOW_AT_SESSION);
    uint32_t start;

    if (session == endpoint->session || (session == endpoint->void_session && session != 0)) {
        return 0;
    }
    if (endpoint->counters.held != 0) {
        return 0;
    }
    start = linux_flow_word(endpoint, HYTHE_FLOW_AT_START);
    if (linux_flow_word(endpoint, HYTHE_FLOW_AT_SESSION) != session) {
        return 0;
    }
    endpoint->void_session = 0;
    attach(endpoint, session, start);
    return 1;
}

int hythe_session_is_current(const struct hythe_endpoint *endpoint)
{
    /* The agent's session first: after an agent change the flow lines may have moved. */
    const struct hythe_link *link = endpoint->link;
    uint32_t agent = hythe_read(link->port, hythe_const_word(link->base, HYTHE_LINUX_AT_SESSION));

    return link->state == HYTHE_STATE_UP && agent == link->linux_session && endpoint->session != 0 &&
           linux_flow_word(endpoint, HYTHE_FLOW_AT_SESSION) == endpoint->session;
}
