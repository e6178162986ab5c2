/*
 * The link: meeting the Linux agent, and meeting it again (spec/link.md, "Sessions").
 *
 * State is what the agent's `session` word makes it: whenever it differs from the session that was
 * answered, and no buffer is held any more, the core section is written anew and the answer given.
 * Endpoints are session.c.
 */
#include "link.h"

#include "geometry.h"
#include "shared.h"
#include "wait.h"

/* ---- Words of the core section ---- */

static void write_core(struct hythe_link *link, uint32_t offset, uint32_t value)
{
    hythe_write(link->port, hythe_word(link->core, offset), value);
}

uint32_t hythe_name_bytes(const char *name)
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
    uint32_t bytes = hythe_name_bytes(name);
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

    if (hythe_read(link->port, hythe_const_word(section, HYTHE_LINUX_AT_MAGIC)) !=
        HYTHE_LINUX_MAGIC) {
        return 0;
    }
    section_bytes = hythe_read(link->port, hythe_const_word(section, HYTHE_LINUX_AT_SECTION_BYTES));
    if (section_bytes < HYTHE_LINK_BYTES_MIN / 2 || section_bytes > link->link_bytes / 2 ||
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
        const struct hythe_counters *counters = &link->endpoints[i].counters;
        uint32_t record = layout->core_records + i * HYTHE_RECORD_BYTES;
        write_name(link, record + HYTHE_RECORD_AT_NAME, config->name);
        write_core(link, record + HYTHE_RECORD_AT_DIRECTION, config->direction);
        write_core(link, record + HYTHE_RECORD_AT_MAX_BYTES, config->max_bytes);
        write_core(link, record + HYTHE_RECORD_AT_TYPE, config->type);
        write_core(link, record + HYTHE_RECORD_AT_KIND, config->kind);
        write_core(link, record + HYTHE_RECORD_AT_VIOLATIONS, counters->violations);
        write_core(link, record + HYTHE_RECORD_AT_FULL, counters->full);
        write_core(link, record + HYTHE_RECORD_AT_NO_SLOT, counters->no_slot);
        write_core(link, record + HYTHE_RECORD_AT_DROPPED, counters->dropped);
    }
}

/* Linux's section has flows for more endpoints than this program offers: nobody answers there. */
static void silence_other_flows(struct hythe_link *link, const struct hythe_layout *layout)
{
    uint32_t first = link->endpoint_count * link->geometry.ports;
    uint32_t end = link->geometry.endpoints * link->geometry.ports;
    uint32_t i;

    for (i = first; i < end; i++) {
        write_core(link, layout->core_flow + i * link->geometry.line_bytes + HYTHE_FLOW_AT_SESSION,
                   0);
    }
}

static uint32_t read_changes(const struct hythe_link *link)
{
    return hythe_read(link->port, hythe_const_word(linux_section(link), link->geometry.line_bytes +
                                                                            HYTHE_BELL_AT_CHANGES));
}

static void begin_endpoints(struct hythe_link *link)
{
    struct hythe_layout layout;
    uint32_t i;

    hythe_geometry_layout(&link->geometry, &layout);
    write_records(link, &layout);
    /* The flow lines are looked at once, whatever `changes` is. */
    link->pending = 1;
    for (i = 0; i < link->endpoint_count; i++) {
        hythe_session_begin(&link->endpoints[i], &layout);
    }
    silence_other_flows(link, &layout);
    link->bell_count =
        hythe_load_relaxed(hythe_word(link->core, layout.core_bell + HYTHE_BELL_AT_COUNT));
    hythe_link_write_bell_wanted(link);
}

static void answer(struct hythe_link *link, uint32_t linux_session)
{
    link->linux_session = linux_session;
    link->state = link->reason == HYTHE_REASON_NONE ? HYTHE_STATE_UP : HYTHE_STATE_REFUSED;
    write_name(link, HYTHE_CORE_AT_NAME, link->name);
    write_core(link, HYTHE_CORE_AT_VERSION, HYTHE_VERSION);
    write_core(link, HYTHE_CORE_AT_REASON, link->reason);
    write_core(link, HYTHE_CORE_AT_ENDPOINTS,
               link->reason == HYTHE_REASON_NONE ? link->endpoint_count : 0);
    write_core(link, HYTHE_CORE_AT_LINE_BYTES, link->geometry.line_bytes);
    write_core(link, HYTHE_CORE_AT_MAGIC, HYTHE_CORE_MAGIC);
    write_core(link, HYTHE_CORE_AT_ECHO, linux_session);
    write_core(link, HYTHE_CORE_AT_STATE, link->state);
    hythe_link_ring(link);
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
    link->reason = hythe_geometry_check(&link->geometry, link->link_bytes, link->region_bytes,
                                        link->endpoint_count);
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

void hythe_endpoint_count(struct hythe_endpoint *endpoint, uint32_t *counter, uint32_t offset)
{
    struct hythe_link *link = endpoint->link;
    uint32_t record = 2 * link->geometry.line_bytes + endpoint->index * HYTHE_RECORD_BYTES;

    ++*counter;
    /* While the link is down Linux may be about to lay it out anew; the next life shows it. */
    if (link->state == HYTHE_STATE_UP) {
        write_core(link, record + offset, *counter);
    }
}

void hythe_link_end_earlier_life(struct hythe_link *link)
{
    if (find_core_section(link)) {
        begin_life(link);
    }
}

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

/* Looks at the session words only if Linux says that one changed, or one still waits for us. */
static void serve_flows(struct hythe_link *link)
{
    uint32_t changes = read_changes(link);
    uint32_t echoes = 0;
    uint32_t i;

    if (changes == link->changes_seen && !link->pending) {
        return;
    }
    link->changes_seen = changes;
    link->pending = 0;
    for (i = 0; i < link->endpoint_count; i++) {
        echoes += hythe_session_serve(&link->endpoints[i]);
    }
    if (echoes != 0) {
        hythe_link_ring(link);
    }
}

int hythe_link_is_quiet(const struct hythe_link *link)
{
    return !link->pending && read_linux_session(link) == link->linux_session &&
           read_changes(link) == link->changes_seen;
}

int hythe_link_serve(struct hythe_link *link)
{
    uint32_t linux_session = read_linux_session(link);

    if (linux_session != link->linux_session) {
        follow_agent(link, linux_session);
    }
    if (link->state == HYTHE_STATE_UP) {
        serve_flows(link);
    }
    return result_of_state(link);
}

void hythe_link_write_bell_wanted(struct hythe_link *link)
{
    write_core(link, link->geometry.line_bytes + HYTHE_BELL_AT_WANTED,
               link->sleepers != 0 || link->sleeps_by_itself != 0);
}

void hythe_link_ring(struct hythe_link *link)
{
    if (link->state == HYTHE_STATE_UP) {
        link->bell_count++;
        write_core(link, link->geometry.line_bytes + HYTHE_BELL_AT_COUNT, link->bell_count);
    }
    link->port->ring(link->port->context);
}

/* ---- Public ---- */

int hythe_link_service(struct hythe_link *link)
{
    int result;

    hythe_link_lock(link);
    result = hythe_link_serve(link);
    hythe_link_unlock(link);
    return result;
}

int hythe_link_wait(struct hythe_link *link, uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    hythe_wait_begin(&wait, link, 0, timeout_ms);
    do {
        result = hythe_link_service(link);
    } while (result != HYTHE_OK && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result;
}

struct hythe_endpoint *hythe_link_endpoint(struct hythe_link *link, uint32_t index)
{
    return index < link->endpoint_count ? &link->endpoints[index] : NULL;
}
