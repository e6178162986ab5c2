/*
 * What a program asks about an endpoint or a buffer. Taking and giving buffers: take.c, give.c.
 * Never blocks.
 */
#include "link.h"

int hythe_buffer_is_stale(const struct hythe_buffer *buffer)
{
    const struct hythe_endpoint *endpoint = buffer->endpoint;
    int stale;

    if (endpoint == NULL) {
        return 1;
    }
    hythe_link_lock(endpoint->link);
    stale = !hythe_session_is_current(endpoint, buffer->port);
    hythe_link_unlock(endpoint->link);
    return stale;
}

uint32_t hythe_endpoint_ports(const struct hythe_endpoint *endpoint)
{
    struct hythe_link *link = endpoint->link;
    uint32_t ports = 0;
    uint32_t port;

    hythe_link_lock(link);
    if (hythe_link_serve(link) == HYTHE_OK) {
        for (port = 0; port < link->geometry.ports; port++) {
            ports += (uint32_t)hythe_flow_is_attached(endpoint, port);
        }
    }
    hythe_link_unlock(link);
    return ports;
}

void hythe_endpoint_counters(const struct hythe_endpoint *endpoint, struct hythe_counters *counters)
{
    hythe_link_lock(endpoint->link);
    *counters = endpoint->counters;
    hythe_link_unlock(endpoint->link);
}
