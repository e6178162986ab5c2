/*
 * Requests of this core and the replies of Linux (spec/link.md, "A core that asks").
 *
 * Empty slots and replies stand in one queue for each server. Each entry is looked at once: a reply
 * goes to its open request where it stands, and the head of the queue moves only past what is done
 * with. A reply is held by nobody until the program takes it, so that a server's session can end
 * before. Linked only into programs that use it. Never looks at a payload.
 */
#include "descriptor.h"
#include "link.h"
#include "services.h"
#include "shared.h"
#include "wait.h"

/* Of struct hythe_open_request. */
enum {
    /* It has a number, and is not in the queue yet. */
    STATE_BEGUN = 0,
    STATE_SENT = 1,
    STATE_REPLIED = 2,
    STATE_GIVEN_UP = 3
};

/* Words of the header, which is at the start of the slot (spec/request.md). */
enum {
    HEADER_AT_KIND = 0,
    HEADER_AT_RESERVED = 4,
    HEADER_AT_NUMBER_LOW = 8,
    HEADER_AT_NUMBER_HIGH = 12,
    HEADER_BYTES = 16
};

/* ---- Numbers and headers ---- */

static uint64_t number_of(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* The number of the request that an entry replies to; 0: it is an empty slot. */
static uint64_t tag_of(const uint32_t words[HYTHE_WORDS])
{
    return number_of(words[HYTHE_WORD_TAG], words[HYTHE_WORD_TAG + 1]);
}

static void write_header(struct hythe_buffer *buffer, uint64_t number)
{
    volatile uint8_t *slot = buffer->slot;
    uint32_t low = (uint32_t)number;
    uint32_t high = (uint32_t)(number >> 32);

    hythe_store_relaxed(hythe_word(slot, HEADER_AT_KIND), HYTHE_REQUEST_ASKED);
    hythe_store_relaxed(hythe_word(slot, HEADER_AT_RESERVED), 0);
    hythe_store_relaxed(hythe_word(slot, HEADER_AT_NUMBER_LOW), low);
    hythe_store_relaxed(hythe_word(slot, HEADER_AT_NUMBER_HIGH), high);
    buffer->words[HYTHE_WORD_TAG] = low;
    buffer->words[HYTHE_WORD_TAG + 1] = high;
}

/* Of a new request. The session is raised with each start: none comes from an earlier life. */
static uint64_t next_number(struct hythe_client *client)
{
    return number_of(++client->last_number, client->endpoint->link->session);
}

/* The state that the reply to this request brings, by its header; STATE_SENT: it is no reply. */
static uint32_t state_by_header(const struct hythe_port *port, const struct hythe_buffer *reply,
                                uint64_t number)
{
    const volatile uint8_t *slot = reply->slot;
    uint32_t kind;
    uint64_t named;

    hythe_invalidate(port, slot, HEADER_BYTES);
    kind = hythe_load_relaxed(hythe_const_word(slot, HEADER_AT_KIND));
    named = number_of(hythe_load_relaxed(hythe_const_word(slot, HEADER_AT_NUMBER_LOW)),
                      hythe_load_relaxed(hythe_const_word(slot, HEADER_AT_NUMBER_HIGH)));
    if (named != number || (kind != HYTHE_REQUEST_REPLY && kind != HYTHE_REQUEST_GIVEN_UP)) {
        return STATE_SENT;
    }
    return kind == HYTHE_REQUEST_REPLY ? STATE_REPLIED : STATE_GIVEN_UP;
}

static uint32_t bytes_max(const struct hythe_client *client)
{
    const struct hythe_endpoint *endpoint = client->endpoint;

    return endpoint->link->endpoint_configs[endpoint->index].max_bytes;
}

/* ---- Open requests ---- */

/* With 0: one that is free. */
static struct hythe_open_request *find(const struct hythe_client *client, uint64_t number)
{
    uint32_t i;

    for (i = 0; i < client->request_count; i++) {
        if (client->requests[i].number == number) {
            return &client->requests[i];
        }
    }
    return NULL;
}

/* Can its server still answer, or what it has answered still be taken? */
static int is_current(const struct hythe_client *client, const struct hythe_open_request *request)
{
    const struct hythe_endpoint *endpoint = client->endpoint;

    return request->attachment == endpoint->flows[request->port].attachment &&
           hythe_session_is_current(endpoint, request->port);
}

static struct hythe_open_request *begin_request(struct hythe_client *client,
                                                const struct hythe_buffer *buffer)
{
    const struct hythe_tracker *tracker = client->endpoint->link->tracker;
    struct hythe_open_request *request = find(client, 0);

    if (request != NULL) {
        request->number = next_number(client);
        request->state = STATE_BEGUN;
        request->port = buffer->port;
        request->attachment = buffer->attachment;
        request->owner = tracker == NULL ? NULL : tracker->self(tracker);
    }
    return request;
}

/* ---- The queue of a server ---- */

/* Gives back a slot of which nobody will read anything. */
static void return_unread(struct hythe_endpoint *endpoint, uint32_t port,
                          struct hythe_buffer *reply)
{
    hythe_take_hold(endpoint, port, reply);
    (void)hythe_give_back(reply, HYTHE_LENGTH_UNUSED, &endpoint->counters.returned);
}

/* An entry with a tag: the reply to an open request, to a forgotten one, or none. */
static void take_reply(struct hythe_client *client, uint32_t port,
                       const uint32_t words[HYTHE_WORDS])
{
    struct hythe_endpoint *endpoint = client->endpoint;
    struct hythe_client_port *seen = &client->ports[port];
    struct hythe_open_request *request = find(client, tag_of(words));
    uint32_t state = STATE_SENT;
    struct hythe_buffer reply;
    uint32_t i;

    if (!hythe_take_accept(endpoint, &reply, words)) {
        hythe_violation(endpoint);
        return;
    }
    if (reply.length <= bytes_max(client)) {
        state = state_by_header(endpoint->link->port, &reply, tag_of(words));
    }
    if (state != STATE_SENT && request == NULL && seen->forgotten != 0) {
        seen->forgotten--;
        hythe_endpoint_count(endpoint, &endpoint->counters.dropped, HYTHE_RECORD_AT_DROPPED);
    } else if (state == STATE_SENT || request == NULL || request->state != STATE_SENT ||
               request->attachment != seen->attachment) {
        /* An attachment tells ports apart, too. */
        hythe_violation(endpoint);
    } else {
        request->state = state;
        for (i = 0; i < HYTHE_WORDS; i++) {
            request->words[i] = words[i];
        }
        if (state == STATE_REPLIED) {
            return;
        }
    }
    return_unread(endpoint, port, &reply);
}

/*
 * Looks at the first entry that was not looked at. 0: there is none. The view is made anew each
 * time, since giving a slot back may have met a new agent.
 */
static int look_at_next(struct hythe_client *client, uint32_t port)
{
    struct hythe_endpoint *endpoint = client->endpoint;
    struct hythe_client_port *seen = &client->ports[port];
    struct hythe_flow *flow = &endpoint->flows[port];
    struct hythe_flow_view view;
    uint32_t words[HYTHE_WORDS];
    int found;

    if (!hythe_flow_is_attached(endpoint, port) || flow->quarantined) {
        return 0;
    }
    if (seen->attachment != flow->attachment) {
        seen->attachment = flow->attachment;
        seen->looked = flow->inbox_head;
        seen->forgotten = 0;
    }
    hythe_flow_look(&view, endpoint, port);
    found = hythe_inbox_peek(&view, seen->looked - flow->inbox_head, words);
    /* A session that ended meanwhile: what we read proves nothing. */
    if (found == HYTHE_QUEUE_NOT_NOW || !hythe_session_is_current(endpoint, port)) {
        return 0;
    }
    if (found == HYTHE_QUEUE_BROKEN) {
        (void)hythe_flow_quarantine(endpoint, port);
        return 0;
    }
    seen->looked++;
    if (tag_of(words) != 0) {
        take_reply(client, port, words);
    }
    return 1;
}

/*
 * Moves the head past the replies at the front, which are taken. With a buffer, takes the empty
 * slot behind them. HYTHE_OK: it did; HYTHE_E_TIMEOUT, HYTHE_E_DETACHED.
 */
static int pass_replies(struct hythe_client *client, uint32_t port, struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint = client->endpoint;
    const struct hythe_client_port *seen = &client->ports[port];
    const struct hythe_flow *flow = &endpoint->flows[port];
    struct hythe_flow_view view;
    uint32_t words[HYTHE_WORDS];

    hythe_flow_look(&view, endpoint, port);
    while (seen->looked != flow->inbox_head) {
        if (hythe_inbox_peek(&view, 0, words) != HYTHE_QUEUE_OK ||
            !hythe_session_is_current(endpoint, port)) {
            return HYTHE_E_DETACHED;
        }
        if (tag_of(words) == 0 && buffer == NULL) {
            return HYTHE_E_TIMEOUT;
        }
        hythe_inbox_advance(&view);
        if (tag_of(words) != 0) {
            continue;
        }
        /* The header must not reach into the payload. */
        if (words[HYTHE_WORD_OFFSET] >= HEADER_BYTES &&
            hythe_take_accept(endpoint, buffer, words)) {
            hythe_take_hold(endpoint, port, buffer);
            return HYTHE_OK;
        }
        hythe_violation(endpoint);
    }
    return HYTHE_E_TIMEOUT;
}

/* Takes all replies of a server, one turn of its ring at most; then as pass_replies(). */
static int look(struct hythe_client *client, uint32_t port, struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint = client->endpoint;
    uint32_t looks = endpoint->link->geometry.capacity;

    while (looks != 0 && look_at_next(client, port)) {
        looks--;
    }
    if (endpoint->flows[port].quarantined) {
        return HYTHE_E_QUARANTINED;
    }
    return hythe_flow_is_attached(endpoint, port) ? pass_replies(client, port, buffer)
                                                  : HYTHE_E_DETACHED;
}

/* Asks the attached servers in turn, beginning behind the one that gave last. */
static int try_lease(struct hythe_client *client, struct hythe_buffer *buffer)
{
    struct hythe_endpoint *endpoint = client->endpoint;
    uint32_t ports = endpoint->link->geometry.ports;
    int result = HYTHE_E_DETACHED;
    uint32_t i;

    for (i = 0; i < ports; i++) {
        uint32_t port = (endpoint->next_port + i) % ports;
        int found;
        if (!hythe_flow_is_attached(endpoint, port)) {
            continue;
        }
        found = look(client, port, buffer);
        if (found == HYTHE_OK) {
            endpoint->next_port = (port + 1) % ports;
            return HYTHE_OK;
        }
        if (found == HYTHE_E_TIMEOUT || result == HYTHE_E_DETACHED) {
            result = found;
        }
    }
    return result;
}

/* ---- Outcomes ---- */

/* HYTHE_E_TIMEOUT: it is still open. Otherwise it is over, and its memory free. */
static int take_outcome(struct hythe_client *client, struct hythe_open_request *request,
                        struct hythe_buffer *reply)
{
    struct hythe_endpoint *endpoint = client->endpoint;
    int result = HYTHE_OK;

    if (request->state == STATE_BEGUN) {
        return HYTHE_E_TIMEOUT;
    }
    if (request->state == STATE_GIVEN_UP) {
        result = HYTHE_E_GIVEN_UP;
    } else if (!is_current(client, request)) {
        result = HYTHE_E_LOST;
    } else if (endpoint->flows[request->port].quarantined) {
        result = HYTHE_E_QUARANTINED;
    } else if (request->state == STATE_SENT) {
        return HYTHE_E_TIMEOUT;
    } else {
        /* Good, as it was when it came. */
        (void)hythe_take_accept(endpoint, reply, request->words);
        hythe_invalidate(endpoint->link->port, reply->data, reply->length);
        hythe_take_hold(endpoint, request->port, reply);
    }
    request->number = 0;
    return result;
}

static int try_outcome(struct hythe_client *client, uint64_t *number, struct hythe_buffer *reply)
{
    struct hythe_open_request *request;
    int result = HYTHE_E_ARGUMENT;
    uint32_t i;

    if (*number != 0) {
        request = find(client, *number);
        return request == NULL ? HYTHE_E_ARGUMENT : take_outcome(client, request, reply);
    }
    for (i = 0; i < client->request_count && *number == 0; i++) {
        request = &client->requests[i];
        if (request->number != 0) {
            uint64_t its_number = request->number;
            result = take_outcome(client, request, reply);
            *number = result == HYTHE_E_TIMEOUT ? 0 : its_number;
        }
    }
    return result;
}

static int serve_and_take(struct hythe_client *client, uint64_t *number, struct hythe_buffer *reply)
{
    struct hythe_link *link = client->endpoint->link;
    uint32_t port;
    int result;

    hythe_link_lock(link);
    if (hythe_link_serve(link) == HYTHE_OK) {
        for (port = 0; port < link->geometry.ports; port++) {
            (void)look(client, port, NULL);
        }
    }
    result = try_outcome(client, number, reply);
    hythe_link_unlock(link);
    return result;
}

static int serve_and_lease(struct hythe_client *client, struct hythe_buffer *buffer)
{
    struct hythe_link *link = client->endpoint->link;
    int result;

    hythe_link_lock(link);
    result = hythe_link_serve(link);
    if (result == HYTHE_OK) {
        result = try_lease(client, buffer);
    }
    hythe_link_unlock(link);
    return result;
}

/* Its reply is dropped and counted, whether it has come or will. */
static void forget(struct hythe_client *client, struct hythe_open_request *request)
{
    struct hythe_endpoint *endpoint = client->endpoint;
    struct hythe_buffer reply;
    int result = take_outcome(client, request, &reply);

    if (result == HYTHE_OK) {
        hythe_endpoint_count(endpoint, &endpoint->counters.dropped, HYTHE_RECORD_AT_DROPPED);
        (void)hythe_give_back(&reply, HYTHE_LENGTH_UNUSED, &endpoint->counters.returned);
    } else if (result == HYTHE_E_TIMEOUT) {
        client->ports[request->port].forgotten += request->state == STATE_SENT;
        request->number = 0;
    }
}

static uint32_t forget_of(struct hythe_client *client, const struct hythe_task *owner)
{
    struct hythe_link *link = client->endpoint->link;
    uint32_t count = 0;
    uint32_t i;

    hythe_link_lock(link);
    for (i = 0; i < client->request_count; i++) {
        struct hythe_open_request *request = &client->requests[i];
        if (request->number != 0 && request->owner == owner) {
            forget(client, request);
            count++;
        }
    }
    hythe_link_unlock(link);
    return count;
}

/* Writes the header. The whole slot, as hythe_publish() does: nothing is written back later. */
static void clean_request(struct hythe_buffer *buffer, uint64_t number)
{
    write_header(buffer, number);
    hythe_clean(buffer->endpoint->link->port, buffer->slot,
                (size_t)(buffer->data - buffer->slot) + buffer->length);
}

/* ---- Public ---- */

int hythe_client_start(struct hythe_client *client, struct hythe_endpoint *endpoint,
                       struct hythe_open_request *requests, uint32_t request_count)
{
    static const struct hythe_client_port nothing = {0, 0, 0};
    uint32_t i;

    if (client == NULL || endpoint == NULL || endpoint->kind != HYTHE_KIND_REQUESTS ||
        endpoint->direction != HYTHE_FROM_CORE || requests == NULL || request_count == 0) {
        return HYTHE_E_ARGUMENT;
    }
    client->endpoint = endpoint;
    client->requests = requests;
    client->request_count = request_count;
    client->last_number = 0;
    client->forget_of = forget_of;
    for (i = 0; i < request_count; i++) {
        requests[i].number = 0;
    }
    for (i = 0; i < HYTHE_MAX_PORTS; i++) {
        client->ports[i] = nothing;
    }
    return HYTHE_OK;
}

int hythe_request_lease(struct hythe_client *client, struct hythe_buffer *buffer,
                        uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (client == NULL || buffer == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    buffer->endpoint = NULL;
    hythe_wait_begin(&wait, client->endpoint->link, client->endpoint->spin_checks, timeout_ms);
    do {
        result = serve_and_lease(client, buffer);
    } while (result != HYTHE_OK && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result;
}

int hythe_request_send(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t length,
                       uint64_t *number)
{
    struct hythe_open_request *request;
    struct hythe_link *link;
    int result;

    if (client == NULL || buffer == NULL || number == NULL ||
        buffer->endpoint != client->endpoint) {
        return HYTHE_E_ARGUMENT;
    }
    if (length > buffer->length || length > bytes_max(client)) {
        return HYTHE_E_LENGTH;
    }
    link = client->endpoint->link;
    hythe_link_lock(link);
    request = begin_request(client, buffer);
    hythe_link_unlock(link);
    if (request == NULL) {
        return HYTHE_E_FULL;
    }
    *number = request->number;
    clean_request(buffer, request->number);
    hythe_link_lock(link);
    result = hythe_give_back(buffer, length, &client->endpoint->counters.published);
    if (result == HYTHE_OK) {
        request->state = STATE_SENT;
    } else {
        request->number = 0;
    }
    hythe_link_unlock(link);
    return result;
}

void hythe_request_tell(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t length)
{
    struct hythe_link *link = client->endpoint->link;
    uint64_t number;

    hythe_link_lock(link);
    number = next_number(client);
    hythe_link_unlock(link);
    clean_request(buffer, number);
    hythe_link_lock(link);
    (void)hythe_give_back(buffer, length, &client->endpoint->counters.published);
    hythe_link_unlock(link);
}

int hythe_reply_wait(struct hythe_client *client, uint64_t *number, struct hythe_buffer *reply,
                     uint32_t timeout_ms)
{
    struct hythe_wait wait;
    int result;

    if (client == NULL || number == NULL || reply == NULL) {
        return HYTHE_E_ARGUMENT;
    }
    reply->endpoint = NULL;
    hythe_wait_begin(&wait, client->endpoint->link, client->endpoint->spin_checks, timeout_ms);
    do {
        result = serve_and_take(client, number, reply);
    } while (result == HYTHE_E_TIMEOUT && hythe_wait_again(&wait));
    hythe_wait_end(&wait);
    return result;
}

int hythe_request_forget(struct hythe_client *client, uint64_t number)
{
    struct hythe_open_request *request;
    struct hythe_link *link;
    int result = HYTHE_E_ARGUMENT;

    if (client == NULL || number == 0) {
        return HYTHE_E_ARGUMENT;
    }
    link = client->endpoint->link;
    hythe_link_lock(link);
    request = find(client, number);
    if (request != NULL) {
        forget(client, request);
        result = HYTHE_OK;
    }
    hythe_link_unlock(link);
    return result;
}

int hythe_call(struct hythe_client *client, struct hythe_buffer *request, uint32_t length,
               struct hythe_buffer *reply, uint32_t timeout_ms)
{
    uint64_t number;
    int result = hythe_request_send(client, request, length, &number);

    if (result != HYTHE_OK) {
        return result;
    }
    result = hythe_reply_wait(client, &number, reply, timeout_ms);
    if (result == HYTHE_E_TIMEOUT) {
        (void)hythe_request_forget(client, number);
    }
    return result;
}
