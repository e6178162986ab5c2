/*
 * Starting a link: the configuration is checked and copied, and the first look at Linux taken.
 * Called once by the program. Never blocks.
 */
#include "link.h"
#include "shared.h"

static int name_is_valid(const char *name)
{
    return name != NULL && name[0] != '\0' && hythe_name_bytes(name) <= HYTHE_NAME_BYTES;
}

static int endpoint_error(const struct hythe_endpoint_config *endpoint)
{
    if (!name_is_valid(endpoint->name)) {
        return HYTHE_E_ENDPOINT_NAME;
    }
    if (endpoint->direction != HYTHE_TO_CORE && endpoint->direction != HYTHE_FROM_CORE) {
        return HYTHE_E_ENDPOINT_DIRECTION;
    }
    return endpoint->kind <= HYTHE_KIND_EVENTS ? HYTHE_OK : HYTHE_E_ENDPOINT_KIND;
}

static int endpoints_error(const struct hythe_link_config *config)
{
    int error = HYTHE_OK;
    uint32_t i;

    if (config->endpoints == NULL || config->endpoint_count < 1 ||
        config->endpoint_count > HYTHE_MAX_ENDPOINTS) {
        return HYTHE_E_ENDPOINT_COUNT;
    }
    for (i = 0; i < config->endpoint_count && error == HYTHE_OK; i++) {
        error = endpoint_error(&config->endpoints[i]);
    }
    return error;
}

static int port_error(const struct hythe_port *port)
{
    if (port == NULL || port->wait == NULL || port->ring == NULL || port->now_ms == NULL) {
        return HYTHE_E_PORT_CALLS;
    }
    return (port->lock == NULL) == (port->unlock == NULL) ? HYTHE_OK : HYTHE_E_PORT_LOCK;
}

/* HYTHE_OK, or the code of what is wrong first. */
static int config_error(const struct hythe_link_config *config)
{
    int error;

    if (config->link == NULL || (uintptr_t)config->link % HYTHE_LINE_MIN != 0) {
        return HYTHE_E_LINK_ADDRESS;
    }
    if (config->link_bytes < HYTHE_LINK_BYTES_MIN || config->link_bytes > UINT32_MAX) {
        return HYTHE_E_LINK_BYTES;
    }
    if (config->region == NULL) {
        return HYTHE_E_REGION;
    }
    if (!name_is_valid(config->name)) {
        return HYTHE_E_NAME;
    }
    error = endpoints_error(config);
    return error != HYTHE_OK ? error : port_error(config->port);
}

static void prepare_endpoint(struct hythe_link *link, uint32_t index)
{
    static const struct hythe_counters no_counters = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const struct hythe_flow no_flow = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    struct hythe_endpoint *endpoint = &link->endpoints[index];
    uint32_t port;

    endpoint->link = link;
    endpoint->index = index;
    endpoint->direction = link->endpoint_configs[index].direction;
    endpoint->kind = link->endpoint_configs[index].kind;
    endpoint->spin_checks = link->endpoint_configs[index].spin_checks;
    endpoint->attached = 0;
    endpoint->next_port = 0;
    endpoint->counters = no_counters;
    for (port = 0; port < HYTHE_MAX_PORTS; port++) {
        endpoint->flows[port] = no_flow;
    }
}

int hythe_link_start(struct hythe_link *link, const struct hythe_link_config *config)
{
    int error = link == NULL || config == NULL ? HYTHE_E_ARGUMENT : config_error(config);
    uint32_t i;

    if (error != HYTHE_OK) {
        return error;
    }
    link->base = (volatile uint8_t *)config->link;
    link->link_bytes = config->link_bytes;
    link->region = (uint8_t *)config->region;
    link->region_bytes = config->region_bytes;
    link->name = config->name;
    link->endpoint_configs = config->endpoints;
    link->endpoint_count = config->endpoint_count;
    link->sleep_looks = config->sleep_looks;
    link->sleeps_by_itself = config->sleeps_by_itself;
    link->port = config->port;
    link->core = NULL;
    link->linux_session = 0;
    link->state = HYTHE_STATE_DOWN;
    link->reason = HYTHE_REASON_NONE;
    link->changes_seen = 0;
    link->pending = 0;
    link->session = 0;
    link->bell_count = 0;
    link->sleepers = 0;
    link->tracker = NULL;
    for (i = 0; i < link->endpoint_count; i++) {
        prepare_endpoint(link, i);
    }
    if (hythe_link_service(link) == HYTHE_E_DOWN) {
        /* No agent to answer yet. */
        hythe_link_end_earlier_life(link);
    }
    return HYTHE_OK;
}
