/*
 * The link: meeting the Linux agent, and meeting it again (spec/link.md, "Sessions").
 *
 * State is what the agent's `session` word makes it: whenever it differs from the session that was answered, and no
 * buffer is held any more, the core section is written anew and the answer given. Endpoints are session.c.
 */
#include "link.h"

#include "geometry.h"
#include "shared.h"

/* The smallest link whose header lines can be read safely: two sections of three lines. */
#define LINK_BYTES_MIN (6u * HYTHE_LINE_MIN)

/* ---- Words of the core section ---- */

static void write_core(struct hythe_link *link, uint32_t offset, uint32_t value)
{
    hythe_write(link->port, hythe_word(link->core, offset), value);
}

static uint32_t name_bytes(const char *name)
{
    uint32_t bytes = 0;

    while (bytes <= HYTHE_NAME_BYTES && name[bytes] != '\0') {
        bytes++;
    }
    return bytes;
}

/* A name as 8 words, little endian, zero padded: shared memory is written in words only. */
static void write_name(struct hythe_link *link, uint32_t offset, const char *name)
{
    uint32_t bytes = name_bytes(name);
    uint32_t word = 0;
    uint32_t i;

    for (i = 0; i < HYTHE_NAME_BYTES; i++) {
        if (i < bytes) {
            word |= (uint32_t)(unsigned char)name[i] << 8 * (i % 4);
        }
        if (i % 4 == 3) {
            write_core(link, offset + i - 3, word);
            word = 0;
        }
    }
}

static uint32_t next_session(uint32_t session)
{
    return session + 1 == 0 ? 1 : session + 1;
}

/* ---- Meeting ---- */

static const volatile uint8_t *linux_section(const struct hythe_link *link)
{
    return link->base;
}

/* Any magic and a size that fits; everything else is checked later, in the private copy. */
static int find_core_section(struct hythe_link *link)
{
    const volatile uint8_t *section = linux_section(link);
    uint32_t section_bytes;

    if (hythe_read(link->port, hythe_const_word(section, HYTHE_LINUX_AT_MAGIC)) != HYTHE_LINUX_MAGIC) {
        return 0;
    }
    section_bytes = hythe_read(link->port, hythe_const_word(section, HYTHE_LINUX_AT_SECTION_BYTES));
    if (section_bytes < LINK_BYTES_MIN / 2 || section_bytes > link->link_bytes / 2 ||
        section_bytes % HYTHE_LINE_MIN != 0) {
        /* Half of the link is where a sane Linux would look for the refusal. */
        section_bytes = (uint32_t)(link->link_bytes / 2 / HYTHE_LINE_MIN * HYTHE_LINE_MIN);
    }
    link->core = link->base + section_bytes;
    return 1;
}

/* A new life: the old one ends for Linux with `state` 0 and an `echo` that answers nobody. */
static void begin_life(struct hythe_link *link)
{
    link->state = HYTHE_STATE_DOWN;
    write_core(link, HYTHE_CORE_AT_STATE, HYTHE_STATE_DOWN);
    write_core(link, HYTHE_CORE_AT_ECHO, 0);
    if (link->session == 0) {
        link->session = hythe_load_relaxed(hythe_word(link->core, HYTHE_CORE_AT_SESSION));
    }
    link->session = next_session(link->session);
    write_core(link, HYTHE_CORE_AT_SESSION, link->session);
}

static void write_records(struct hythe_link *link, const struct hythe_layout *layout)
{
    uint32_t i;

    for (i = 0; i < link->endpoint_count; i++) {
        const struct hythe_endpoint_config *config = &link->endpoint_configs[i];
        uint32_t record = layout->core_records + i * HYTHE_RECORD_BYTES;
        write_name(link, record + HYTHE_RECORD_AT_NAME, config->name);
        write_core(link, record + HYTHE_RECORD_AT_DIRECTION, config->direction);
        write_core(link, record + HYTHE_RECORD_AT_MAX_BYTES, config->max_bytes);
        write_core(link, record + HYTHE_RECORD_AT_TYPE, config->type);
    }
}

static void begin_endpoints(struct hythe_link *link)
{
    struct hythe_layout layout;
    uint32_t i;

    hythe_layout_compute(&layout, link->geometry.line_bytes, link->geometry.endpoints, link->geometry.capacity);
    write_records(link, &layout);
    for (i = 0; i < link->endpoint_count; i++) {
        hythe_session_begin(&link->endpoints[i], i, &layout);
    }
    for (; i < link->geometry.endpoints; i++) {
        /* Linux has room for more endpoints than this program offers: nobody answers there. */
        write_core(link, layout.core_flow + i * link->geometry.line_bytes + HYTHE_FLOW_AT_SESSION, 0);
    }
    link->bell_count = hythe_load_relaxed(hythe_word(link->core, layout.core_bell + HYTHE_BELL_AT_COUNT));
    hythe_link_want_bell(link, 1);
}

static void ring_now(struct hythe_link *link)
{
    if (link->state == HYTHE_STATE_UP) {
        link->bell_count++;
        write_core(link, link->geometry.line_bytes + HYTHE_BELL_AT_COUNT, link->bell_count);
    }
    link->port->ring(link->port->context);
}

static void answer(struct hythe_link *link, uint32_t linux_session)
{
    link->linux_session = linux_session;
    link->state = link->reason == HYTHE_REASON_NONE ? HYTHE_STATE_UP : HYTHE_STATE_REFUSED;
    write_name(link, HYTHE_CORE_AT_NAME, link->name);
    write_core(link, HYTHE_CORE_AT_VERSION, HYTHE_VERSION);
    write_core(link, HYTHE_CORE_AT_REASON, link->reason);
    write_core(link, HYTHE_CORE_AT_ENDPOINTS, link->reason == HYTHE_REASON_NONE ? link->endpoint_count : 0);
    write_core(link, HYTHE_CORE_AT_LINE_BYTES, link->geometry.line_bytes);
    write_core(link, HYTHE_CORE_AT_MAGIC, HYTHE_CORE_MAGIC);
    write_core(link, HYTHE_CORE_AT_ECHO, linux_session);
    write_core(link, HYTHE_CORE_AT_STATE, link->state);
    ring_now(link);
}

static uint32_t read_linux_session(const struct hythe_link *link)
{
    return hythe_read(link->port, hythe_const_word(linux_section(link), HYTHE_LINUX_AT_SESSION));
}

static void meet(struct hythe_link *link, uint32_t linux_session)
{
    if (!find_core_section(link)) {
        return;
    }
    hythe_geometry_copy(&link->geometry, link->port, linux_section(link), link->link_bytes / 2);
    if (read_linux_session(link) != linux_session) {
        /* Linux is still writing: look again at the next call. */
        return;
    }
    link->reason = hythe_geometry_check(&link->geometry, link->link_bytes, link->region_bytes, link->endpoint_count);
    begin_life(link);
    if (link->reason == HYTHE_REASON_NONE) {
        begin_endpoints(link);
    }
    answer(link, linux_session);
}

static int buffers_held(const struct hythe_link *link)
{
    uint32_t i;

    for (i = 0; i < link->endpoint_count; i++) {
        if (link->endpoints[i].counters.held != 0) {
            return 1;
        }
    }
    return 0;
}

/* The agent changed: no endpoint of the old geometry may stay in use. */
static void follow_agent(struct hythe_link *link, uint32_t linux_session)
{
    link->state = HYTHE_STATE_DOWN;
    if (buffers_held(link)) {
        return;
    }
    link->linux_session = 0;
    if (linux_session != 0) {
        meet(link, linux_session);
    } else if (link->core != NULL) {
        write_core(link, HYTHE_CORE_AT_STATE, HYTHE_STATE_DOWN);
        write_core(link, HYTHE_CORE_AT_ECHO, 0);
    }
}

static int result_of_state(const struct hythe_link *link)
{
    switch (link->state) {
    case HYTHE_STATE_UP:
        return HYTHE_OK;
    case HYTHE_STATE_REFUSED:
        return HYTHE_E_REFUSED;
    default:
        return HYTHE_E_DOWN;
    }
}

/* ---- Shared with the other files ---- */

void hythe_link_lock(const struct hythe_link *link)
{
    if (link->port->lock != NULL) {
        link->port->lock(link->port->context);
    }
}

void hythe_link_unlock(const struct hythe_link *link)
{
    if (link->port->unlock != NULL) {
        link->port->unlock(link->port->context);
    }
}

int hythe_link_serve(struct hythe_link *link)
{
    uint32_t linux_session = read_linux_session(link);
    uint32_t echoes = 0;
    uint32_t i;

    if (linux_session != link->linux_session) {
        follow_agent(link, linux_session);
    }
    if (link->state == HYTHE_STATE_UP) {
        for (i = 0; i < link->endpoint_count; i++) {
            echoes += (uint32_t)hythe_session_serve(&link->endpoints[i]);
        }
        if (echoes != 0) {
            ring_now(link);
        }
    }
    return result_of_state(link);
}

void hythe_link_want_bell(struct hythe_link *link, uint32_t wanted)
{
    link->bell_wanted = wanted;
    write_core(link, link->geometry.line_bytes + HYTHE_BELL_AT_WANTED, wanted);
}

int hythe_link_linux_polls(const struct hythe_link *link)
{
    const volatile uint32_t *wanted =
        hythe_const_word(linux_section(link), link->geometry.line_bytes + HYTHE_BELL_AT_WANTED);

    return link->state == HYTHE_STATE_UP && hythe_read(link->port, wanted) == 0;
}

void hythe_link_ring(struct hythe_link *link)
{
    if (link->ring_policy != HYTHE_RING_ALWAYS) {
        /* Our tail before Linux's "I sleep": its mirror image there is "I sleep" before our tail. */
        hythe_fence();
        if (hythe_link_linux_polls(link)) {
            return;
        }
    }
    ring_now(link);
}

/* ---- Public ---- */

static int name_is_valid(const char *name)
{
    return name != NULL && name[0] != '\0' && name_bytes(name) <= HYTHE_NAME_BYTES;
}

static int endpoints_are_valid(const struct hythe_link_config *config)
{
    uint32_t i;

    if (config->endpoints == NULL || config->endpoint_count < 1 || config->endpoint_count > HYTHE_MAX_ENDPOINTS) {
        return 0;
    }
    for (i = 0; i < config->endpoint_count; i++) {
        uint32_t direction = config->endpoints[i].direction;
        if (!name_is_valid(config->endpoints[i].name) || (direction != HYTHE_TO_CORE && direction != HYTHE_FROM_CORE)) {
            return 0;
        }
    }
    return 1;
}

static int config_is_valid(const struct hythe_link_config *config)
{
    const struct hythe_port *port = config->port;

    return config->link != NULL && (uintptr_t)config->link % HYTHE_LINE_MIN == 0 &&
           config->link_bytes >= LINK_BYTES_MIN && config->link_bytes <= UINT32_MAX && config->region != NULL &&
           name_is_valid(config->name) && endpoints_are_valid(config) && port != NULL && port->wait != NULL &&
           port->ring != NULL && port->now_ms != NULL && (port->lock == NULL) == (port->unlock == NULL);
}

static void prepare_endpoint(struct hythe_link *link, uint32_t index)
{
    static const struct hythe_counters no_counters = {0, 0, 0, 0, 0, 0, 0, 0};
    struct hythe_endpoint *endpoint = &link->endpoints[index];

    endpoint->link = link;
    endpoint->direction = link->endpoint_configs[index].direction;
    endpoint->spin_checks = link->endpoint_configs[index].spin_checks;
    endpoint->session = 0;
    endpoint->void_session = 0;
    endpoint->quarantined = 0;
    endpoint->counters = no_counters;
}

int hythe_link_start(struct hythe_link *link, const struct hythe_link_config *config)
{
    uint32_t i;

    if (link == NULL || config == NULL || !config_is_valid(config)) {
        return HYTHE_E_ARGUMENT;
    }
    link->base = (volatile uint8_t *)config->link;
    link->link_bytes = config->link_bytes;
    link->region = (uint8_t *)config->region;
    link->region_bytes = config->region_bytes;
    link->name = config->name;
    link->endpoint_configs = config->endpoints;
    link->endpoint_count = config->endpoint_count;
    link->ring_policy = config->ring;
    link->port = config->port;
    link->core = NULL;
    link->linux_session = 0;
    link->state = HYTHE_STATE_DOWN;
    link->reason = HYTHE_REASON_NONE;
    link->session = 0;
    link->bell_count = 0;
    link->bell_wanted = 1;
    for (i = 0; i < link->endpoint_count; i++) {
        prepare_endpoint(link, i);
    }
    if (hythe_link_service(link) == HYTHE_E_DOWN && find_core_section(link)) {
        /* No agent to answer yet. Whoever still believes in an earlier life learns now that it is over. */
        begin_life(link);
    }
    return HYTHE_OK;
}

int hythe_link_service(struct hythe_link *link)
{
    int result;

    hythe_link_lock(link);
    result = hythe_link_serve(link);
    hythe_link_unlock(link);
    return result;
}

struct hythe_endpoint *hythe_link_endpoint(struct hythe_link *link, uint32_t index)
{
    return index < link->endpoint_count ? &link->endpoints[index] : NULL;
}
