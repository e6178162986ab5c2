/*
 * Hythe on an RTOS core: buffers of a Linux pool, received, filled and forwarded without a copy.
 *
 * Call order: hythe_link_start() once, then the endpoint functions from any task. There is no
 * thread inside the library: sessions are served by whoever calls it, so a program that is idle
 * calls hythe_link_wait() or any blocking function.
 *
 * An endpoint serves several Linux ports at once. Buffers come from all of them in turn; what is
 * published goes to all of them. Each port has a flow of its own: one that is slow, gone or broken
 * costs its own messages only.
 *
 * Between calls: every held buffer is known to its flow, and the library holds no lock. It never
 * allocates, never recurses, never waits without a bound, and never believes a word of the other
 * side before checking it against its private copy of the geometry. The bytes it shares with Linux
 * are described in spec/link.md and spec/descriptor.md.
 *
 * No function here may be called from an interrupt; the interrupt of the doorbell calls the port.
 * Unless a function says otherwise it may be called from several tasks (and cores) at once if the
 * port has a lock. A buffer, like any object, belongs to one task at a time.
 *
 * Results are HYTHE_OK, HYTHE_STALE, or a negative error.
 */
#ifndef HYTHE_RT_H
#define HYTHE_RT_H

#include <stddef.h>
#include <stdint.h>

#include "hythe_port.h"
#include "hythe_rt_config.h"

enum hythe_result {
    HYTHE_OK = 0,
    /*
     * The session of the buffer is over: it was dropped, as the protocol asks. Nobody received it.
     */
    HYTHE_STALE = 1,
    /* A parameter makes no sense; our own bug. */
    HYTHE_E_ARGUMENT = -1,
    /* Nothing came within the time. */
    HYTHE_E_TIMEOUT = -2,
    /* No Linux agent has met this core yet, or it has left. */
    HYTHE_E_DOWN = -3,
    /* This core does not accept Linux's version or geometry. */
    HYTHE_E_REFUSED = -4,
    /* No Linux port is attached to the endpoint. */
    HYTHE_E_DETACHED = -5,
    /* No port had free capacity within the time: Linux has not taken earlier buffers yet. */
    HYTHE_E_FULL = -6,
    /* Linux wrote an impossible counter: the flow is not used until its port attaches anew. */
    HYTHE_E_QUARANTINED = -7,
    /* The payload is longer than the buffer can hold. */
    HYTHE_E_LENGTH = -8,
    /* The server that was asked has left, or the agent. Whether it has acted is not known. */
    HYTHE_E_LOST = -9,
    /* The server that was asked says that there will be no reply. */
    HYTHE_E_GIVEN_UP = -10,
    /* Ports are attached, and none of them gave an empty slot within the time. */
    HYTHE_E_NO_SLOT = -11,
    /* -12 to -15 are those of hythe_rpc.h. */

    /*
     * What is wrong with a configuration, of hythe_link_start() alone: our own bug.
     * hythe_result_text.h has a text for each.
     */

    /* `link` is NULL or not aligned to 64 bytes. */
    HYTHE_E_LINK_ADDRESS = -16,
    /* `link_bytes` is less than HYTHE_LINK_BYTES_MIN, or more than 32 bits hold. */
    HYTHE_E_LINK_BYTES = -17,
    /* `region` is NULL. */
    HYTHE_E_REGION = -18,
    /* `name` is NULL, empty or longer than 32 bytes. */
    HYTHE_E_NAME = -19,
    /* `endpoints` is NULL, or there are 0 or more than HYTHE_MAX_ENDPOINTS. */
    HYTHE_E_ENDPOINT_COUNT = -20,
    /* The name of an endpoint is NULL, empty or longer than 32 bytes. */
    HYTHE_E_ENDPOINT_NAME = -21,
    /* The direction of an endpoint is unknown. */
    HYTHE_E_ENDPOINT_DIRECTION = -22,
    /* The kind of an endpoint is unknown. */
    HYTHE_E_ENDPOINT_KIND = -23,
    /* `port` is NULL, or its `wait`, `ring` or `now_ms` is. */
    HYTHE_E_PORT_CALLS = -24,
    /* The port has only one of `lock` and `unlock`. */
    HYTHE_E_PORT_LOCK = -25
};

enum hythe_direction {
    HYTHE_TO_CORE = 1,
    HYTHE_FROM_CORE = 2
};

/* What travels over an endpoint: word `kind` of its record. */
enum hythe_kind {
    HYTHE_KIND_MESSAGES = 0,
    /* To core: Linux asks, the core replies. From core: the core asks, each port is a server. */
    HYTHE_KIND_REQUESTS = 1,
    HYTHE_KIND_EVENTS = 2
};

/* One endpoint that the program offers; must outlive the link. */
struct hythe_endpoint_config {
    /* 1 to 32 bytes of UTF-8, ended by a zero byte. */
    const char *name;
    /* enum hythe_direction */
    uint32_t direction;
    /* Largest payload in bytes, told to Linux. */
    uint32_t max_bytes;
    /* Hash of the payload's type, told to Linux; 0: plain bytes. */
    uint32_t type;
    /*
     * How often a blocking call on this endpoint looks again before it sleeps; 0: sleep at once.
     * Tasks of lower priority stand still meanwhile, so it is for the lowest ones.
     */
    uint32_t spin_checks;
    /* enum hythe_kind */
    uint32_t kind;
};

/*
 * What hythe_link_start() needs. The configuration may be dropped after the call; what it points to
 * may not.
 */
struct hythe_link_config {
    /* The link's memory, both sections, aligned to a line. */
    volatile void *link;
    size_t link_bytes;
    /* The region's memory under this core's address. */
    void *region;
    size_t region_bytes;
    /* Name of this program, 1 to 32 bytes of UTF-8. */
    const char *name;
    const struct hythe_endpoint_config *endpoints;
    uint32_t endpoint_count;
    /*
     * How often a blocking call looks once more after Linux was told that this core sleeps. 0 on
     * hardware, where barriers hold. An emulator that runs all processors on one thread may leave
     * them out: the word is then visible a little later than it should be, and a ring is lost.
     */
    uint32_t sleep_looks;
    /*
     * 1: Linux rings after each push, also while no call of this library waits. For a program that
     * sleeps by itself, and looks with a time-out of 0 when the doorbell has interrupted it.
     */
    uint32_t sleeps_by_itself;
    const struct hythe_port *port;
};

struct hythe_link;
struct hythe_endpoint;
struct hythe_task;

/*
 * A slot, or a part of one, that this core holds. Fields are set by the library and read by the
 * program.
 */
struct hythe_buffer {
    /* The endpoint it came over; NULL: nothing is held. */
    struct hythe_endpoint *endpoint;
    /* First byte of the slot. The bytes from here to `data` are headroom. */
    uint8_t *slot;
    /* First byte of the payload. */
    uint8_t *data;
    /* Received: bytes of payload, to be read only. Leased: how many bytes of payload fit. */
    uint32_t length;
    /*
     * Which attachment it came under. Each attachment of any port to the endpoint has a number of
     * its own, so it tells ports apart, too, and changes whenever the port attaches anew.
     */
    uint32_t attachment;
    /* Which of the endpoint's Linux ports it came from. */
    uint32_t port;
    /* Private: the entry as it came; and its number among those of which a task is known. */
    uint32_t words[8];
    uint32_t tracked;
};

/*
 * Counters of one endpoint since the link started, over all its ports; each wraps. Linux is shown
 * `violations`, `full`, `no_slot` and `dropped`.
 */
struct hythe_counters {
    uint32_t received;    /* buffers given to the program, those of the fill rings included */
    uint32_t returned;    /* given back, unused empty slots included */
    uint32_t published;   /* messages and requests given to Linux, each once */
    uint32_t forwarded;   /* received here, given to Linux over another endpoint */
    uint32_t missed;      /* messages that a port missed, counted once for each such port */
    uint32_t full;        /* calls that ended with HYTHE_E_FULL */
    uint32_t no_slot;     /* waits that ended with HYTHE_E_NO_SLOT */
    uint32_t dropped;     /* buffers that could go nowhere any more: their session was lost */
    uint32_t violations;  /* entries and words that Linux should not have written */
    uint32_t attachments; /* how often a port attached */
    uint32_t held;        /* buffers the program holds now */
};

/* ---- Private structures: the caller gives them memory, only the library touches them. ---- */

#define HYTHE_MAX_CLASSES 4

struct hythe_slot_class {
    uint32_t slot_bytes;
    uint32_t slot_count;
    uint32_t first_slot;
    uint32_t region_offset;
};

struct hythe_geometry {
    uint32_t version;
    uint32_t line_bytes;
    uint32_t section_bytes;
    uint32_t endpoints;
    uint32_t ports;
    uint32_t capacity;
    uint32_t region;
    uint32_t region_bytes;
    uint32_t classes;
    uint32_t headroom;
    struct hythe_slot_class slot_class[HYTHE_MAX_CLASSES];
};

/*
 * One endpoint and one Linux port: two queues and a session. 32 bytes; where its words and entries
 * are is computed from the geometry.
 */
struct hythe_flow {
    /* The Linux session we echoed; 0: none. */
    uint32_t session;
    /* A session of another life, never to be echoed; 0: none. */
    uint32_t void_session;
    /* Our counters of the queues Linux -> core and core -> Linux. */
    uint32_t inbox_head;
    uint32_t outbox_tail;
    /* Newest head of Linux that made sense; our `start` when the attachment began. */
    uint32_t head_seen;
    /* Buffers that came over this flow and are held by the program. */
    uint32_t held;
    /* Number of the attachment, unlike any other of the endpoint. */
    uint32_t attachment;
    /* From core: a message is pushed while fewer than this wait. 1 to 4096. */
    unsigned window : 16;
    /* Linux's counters are broken: no use until its next session. */
    unsigned quarantined : 1;
    /* Linux's head has made sense once since the attachment began. */
    unsigned settled : 1;
    /* It was waited for in vain, and has taken nothing since. */
    unsigned late : 1;
};

struct hythe_endpoint {
    struct hythe_link *link;
    /* Its number in the configuration. */
    uint32_t index;
    uint32_t direction;
    uint32_t kind;
    uint32_t spin_checks;
    /* Port 0's line and entries in both sections; those of the other ports follow. */
    const volatile uint8_t *linux_lines;
    volatile uint8_t *core_lines;
    const volatile uint8_t *linux_entries;
    volatile uint8_t *core_entries;
    /* Bit p: port p is attached, and has not been seen to leave. */
    uint32_t attached;
    /* Where the next look for a buffer begins. */
    uint32_t next_port;
    struct hythe_counters counters;
    struct hythe_flow flows[HYTHE_MAX_PORTS];
};

/* A request of a client that is not over. 64 bytes. */
struct hythe_open_request {
    /* 0: this one is free. */
    uint64_t number;
    uint32_t state;
    /* The server, and under which attachment of it the request was sent. */
    uint32_t port;
    uint32_t attachment;
    /* The entry of the reply, once it has come. */
    uint32_t words[8];
    /* The task that asked, if it can be killed; else NULL. */
    const struct hythe_task *owner;
};

/* What a client has seen of one server's queue. */
struct hythe_client_port {
    /* Of which attachment the rest is. */
    uint32_t attachment;
    /* The first entry that was not looked at. */
    uint32_t looked;
    /* Requests that were forgotten and are not answered. */
    uint32_t forgotten;
};

/* The one client of a from-core endpoint of kind HYTHE_KIND_REQUESTS. */
struct hythe_client {
    struct hythe_endpoint *endpoint;
    struct hythe_open_request *requests;
    uint32_t request_count;
    uint32_t last_number;
    struct hythe_client_port ports[HYTHE_MAX_PORTS];
    /* Ends what a task has asked; returns how many requests. */
    uint32_t (*forget_of)(struct hythe_client *client, const struct hythe_task *owner);
};

/*
 * What the library tells of the calling task to a program whose tasks can be killed (hythe_task.h).
 * Called under the lock.
 */
struct hythe_tracker {
    /* The calling task, if it can be killed; else NULL. */
    struct hythe_task *(*self)(const struct hythe_tracker *tracker);
    /* It has a buffer from now on; and has it no more. */
    void (*took)(struct hythe_tracker *tracker, struct hythe_buffer *buffer);
    void (*gave)(struct hythe_tracker *tracker, struct hythe_buffer *buffer);
    /* 1: it is one of `sleepers`. 0: it is none any more. */
    void (*sleeps)(const struct hythe_tracker *tracker, uint32_t sleeps);
    /* Number of the calling task; 0: as NULL of `self`. Also without the lock. */
    uint32_t (*number)(const struct hythe_tracker *tracker);
};

struct hythe_link {
    volatile uint8_t *base;
    size_t link_bytes;
    uint8_t *region;
    size_t region_bytes;
    const char *name;
    const struct hythe_endpoint_config *endpoint_configs;
    uint32_t endpoint_count;
    uint32_t sleep_looks;
    uint32_t sleeps_by_itself;
    const struct hythe_port *port;

    /* The core section; NULL until Linux has said where it is. */
    volatile uint8_t *core;
    struct hythe_geometry geometry;
    /* The Linux session that was answered, and how. */
    uint32_t linux_session;
    uint32_t state;
    uint32_t reason;
    /* Linux's `changes` when the flows were last served, and: one of them could not be answered. */
    uint32_t changes_seen;
    uint32_t pending;
    /* Our own session and bell counter, as last written. */
    uint32_t session;
    uint32_t bell_count;
    /* Tasks that Linux was told sleep. */
    uint32_t sleepers;
    /* NULL: no task of this program can be killed. */
    struct hythe_tracker *tracker;
    struct hythe_endpoint endpoints[HYTHE_MAX_ENDPOINTS];
};

/* ---- Functions ---- */

/*
 * Takes the link's memory over and begins to look for Linux. Call once, before any other function,
 * from one task. Never blocks. The port's lock must work already.
 *
 * HYTHE_OK; HYTHE_E_ARGUMENT: `link` or `config` is NULL; HYTHE_E_LINK_ADDRESS to
 * HYTHE_E_PORT_LOCK: the first field of the configuration that is wrong. Then nothing was begun.
 */
int hythe_link_start(struct hythe_link *link, const struct hythe_link_config *config);

/*
 * Answers what Linux has changed since the last call: a new agent, endpoints attached or left.
 * Never blocks; all other functions do this themselves.
 *
 * HYTHE_OK: the link is up; HYTHE_E_DOWN; HYTHE_E_REFUSED.
 */
int hythe_link_service(struct hythe_link *link);

/*
 * Waits until the link is up: HYTHE_OK, or the last result of hythe_link_service(). Blocks up to
 * `timeout_ms`.
 */
int hythe_link_wait(struct hythe_link *link, uint32_t timeout_ms);

/* The endpoint with the number it has in the configuration; NULL if there is none. Never blocks. */
struct hythe_endpoint *hythe_link_endpoint(struct hythe_link *link, uint32_t index);

/*
 * Takes the next filled buffer of a to-core endpoint, from its attached ports in turn. The bytes
 * stay as they are until it is released or forwarded; Linux is not trusted to leave them alone, so
 * a program that decides by them reads each once. Blocks up to `timeout_ms`; 0 only looks.
 *
 * HYTHE_OK with `buffer` filled; else why nothing came: HYTHE_E_TIMEOUT; HYTHE_E_DOWN;
 * HYTHE_E_REFUSED; HYTHE_E_DETACHED: no port is attached; HYTHE_E_QUARANTINED: all attached ports
 * are; HYTHE_E_ARGUMENT.
 */
int hythe_receive(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer,
                  uint32_t timeout_ms);

/*
 * Takes an empty slot from the fill rings of a from-core endpoint, from its attached ports in turn,
 * to be written. Blocks and results as in hythe_receive(), but for HYTHE_E_NO_SLOT in place of
 * HYTHE_E_TIMEOUT: ports are attached, and their fill rings stayed empty.
 */
int hythe_lease(struct hythe_endpoint *endpoint, struct hythe_buffer *buffer, uint32_t timeout_ms);

/*
 * Publishes a leased buffer, now holding `length` bytes of payload from `data` on: one message to
 * all ports attached to its endpoint, whichever of them it was leased from. Blocks up to
 * `timeout_ms` while a port has no free capacity. Then those that have some get it. The others have
 * missed it, and are not waited for again until they take something, unless no other port has free
 * capacity. A buffer whose own port has left still goes to the others.
 *
 * HYTHE_OK: at least one port got it.
 * HYTHE_STALE: it is gone (dropped): the agent changed, or its own port has left and there is no
 * other to take it.
 * HYTHE_E_QUARANTINED: it is gone (dropped): its own port is quarantined and there is no other.
 * HYTHE_E_FULL: no port had free capacity within the time; it is still held, and no port has
 * missed anything.
 * HYTHE_E_LENGTH, HYTHE_E_ARGUMENT: it is still held. Never HYTHE_E_DETACHED.
 */
int hythe_publish(struct hythe_buffer *buffer, uint32_t length, uint32_t timeout_ms);

/*
 * Gives a buffer back to the port it came from: a received one as read, a leased one as unused.
 * Never blocks.
 *
 * HYTHE_OK and HYTHE_STALE: it is gone. HYTHE_E_QUARANTINED: gone, too (dropped; the port's
 * counters are broken, or it gave more buffers than the queue can return). HYTHE_E_ARGUMENT:
 * nothing is held.
 */
int hythe_release(struct hythe_buffer *buffer);

/*
 * Publishes a received buffer, as it is, over the from-core endpoint `to` of the same link, and
 * frees its place in the window of the flow it came from: both, or neither. Nothing is copied.
 * Blocks, and reaches the ports of `to`, as hythe_publish() does.
 *
 * HYTHE_OK: at least one port of `to` got it. HYTHE_STALE: it is gone (dropped): the port it came
 * from has left or is quarantined, or the agent changed. HYTHE_E_DETACHED: no port is attached to
 * `to`; HYTHE_E_QUARANTINED: all that are attached are quarantined; HYTHE_E_FULL: none had free
 * capacity within the time; HYTHE_E_ARGUMENT: it is still held.
 */
int hythe_forward(struct hythe_buffer *buffer, struct hythe_endpoint *to, uint32_t timeout_ms);

/*
 * Answers a request, which was received over an endpoint of kind HYTHE_KIND_REQUESTS: `length`
 * bytes from `data` on, written where the request was, go back to the client that asked. A request
 * that is released instead tells its client that there will be no reply. Requests may be answered
 * in any order. Nothing may have been written beyond the longer of request and reply. Never blocks.
 *
 * HYTHE_OK and HYTHE_STALE: the buffer is gone; HYTHE_E_QUARANTINED: gone, too (dropped).
 * HYTHE_E_LENGTH: more than hythe_reply_capacity(), HYTHE_E_ARGUMENT: not a request; still held.
 */
int hythe_reply(struct hythe_buffer *request, uint32_t length);

/* Bytes that a reply to this request may have: as many as its slot has from `data` on. */
uint32_t hythe_reply_capacity(const struct hythe_buffer *request);

/*
 * Makes an endpoint of direction HYTHE_FROM_CORE and kind HYTHE_KIND_REQUESTS ask the Linux servers
 * attached to it. `requests` has `request_count` entries, one for each request that may be open at
 * once; it and `client` belong to the library from here on, as long as the link does. Call once for
 * each endpoint, behind hythe_link_start(), before any task uses the client. Never blocks.
 *
 * The functions below may be called from several tasks (and cores) at once, as the others; a task
 * that waits while another one takes its reply off the queue notices it HYTHE_WAIT_SLICE_MS later
 * at most.
 *
 * HYTHE_OK; HYTHE_E_ARGUMENT: another kind of endpoint, or no memory for requests.
 */
int hythe_client_start(struct hythe_client *client, struct hythe_endpoint *endpoint,
                       struct hythe_open_request *requests, uint32_t request_count);

/*
 * Takes an empty slot of one of the attached servers, in turn, to write a request into: that server
 * is the one to be asked. One that is busy or stopped gives no more slots, and so is not asked. A
 * slot that is not sent goes back with hythe_release(). Blocks up to `timeout_ms`; 0 only looks.
 *
 * HYTHE_OK with `buffer` filled; HYTHE_E_TIMEOUT: no server had an empty slot within the time;
 * HYTHE_E_DETACHED: no server is attached; else as hythe_lease().
 */
int hythe_request_lease(struct hythe_client *client, struct hythe_buffer *buffer,
                        uint32_t timeout_ms);

/*
 * Sends a leased buffer, now holding `length` bytes from `data` on, as a request, once, to the
 * server that it was leased from. `number` gets the number by which the client knows it. Never
 * blocks. Call hythe_reply_wait() or hythe_request_forget() for each request that was sent.
 *
 * HYTHE_OK: it is sent. HYTHE_STALE: it is gone (dropped), and nobody has got it: the server has
 * left, or the agent; lease another. HYTHE_E_QUARANTINED: gone (dropped), too. HYTHE_E_FULL: as
 * many requests as the client has memory for are open; HYTHE_E_LENGTH: it is longer than the
 * buffer or the endpoint's max_bytes; HYTHE_E_ARGUMENT: it is still held.
 */
int hythe_request_send(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t length,
                       uint64_t *number);

/*
 * Waits until the request `*number` is over; with 0 there, until any open one is, and puts its
 * number there. Replies may come in any order. With HYTHE_OK, `reply` is a buffer to be read, as
 * from hythe_receive(), and to be given back with hythe_release(). Blocks up to `timeout_ms`; 0
 * only looks.
 *
 * HYTHE_OK; HYTHE_E_GIVEN_UP: there will be no reply; HYTHE_E_LOST: the server has left, or the
 * agent; HYTHE_E_QUARANTINED: its counters are broken. The request is over then, and its number
 * means nothing any more. HYTHE_E_TIMEOUT: it is still open. HYTHE_E_ARGUMENT: no such request, or
 * with 0: none is open.
 */
int hythe_reply_wait(struct hythe_client *client, uint64_t *number, struct hythe_buffer *reply,
                     uint32_t timeout_ms);

/*
 * Ends an open request without waiting for its reply, which is dropped and counted when it comes.
 * Its server is not told. Never blocks. HYTHE_OK; HYTHE_E_ARGUMENT: no such request.
 */
int hythe_request_forget(struct hythe_client *client, uint64_t number);

/*
 * hythe_request_send(), then hythe_reply_wait(), and if nothing came within the time,
 * hythe_request_forget(). Blocks up to `timeout_ms`. Results as of the first two; after
 * HYTHE_E_TIMEOUT the request is over as well.
 */
int hythe_call(struct hythe_client *client, struct hythe_buffer *request, uint32_t length,
               struct hythe_buffer *reply, uint32_t timeout_ms);

/*
 * Raises a set of events, bit n for event n, for all ports attached to a from-core endpoint of kind
 * HYTHE_KIND_EVENTS. An event that a port has not taken yet stays pending once. Call it after what
 * the events announce. Never blocks.
 *
 * HYTHE_OK: at least one port is attached; HYTHE_E_DETACHED: none is; HYTHE_E_DOWN;
 * HYTHE_E_REFUSED; HYTHE_E_ARGUMENT.
 */
int hythe_event_raise(struct hythe_endpoint *endpoint, uint64_t events);

/*
 * Waits until an event is pending on a to-core endpoint of kind HYTHE_KIND_EVENTS and takes all
 * that are, of all its ports. Look at what they announce after it. Blocks up to `timeout_ms`; 0
 * only looks.
 *
 * HYTHE_OK with the set in `events`; else 0 there and HYTHE_E_TIMEOUT, HYTHE_E_DETACHED: no port
 * is attached, HYTHE_E_DOWN, HYTHE_E_REFUSED or HYTHE_E_ARGUMENT.
 */
int hythe_event_wait(struct hythe_endpoint *endpoint, uint64_t *events, uint32_t timeout_ms);

/*
 * Has the port left that this buffer came from, or the agent? 1: a release is seen by nobody, and
 * Linux waits for it; a leased buffer may still be published to other ports. For work that takes
 * long. Never blocks.
 */
int hythe_buffer_is_stale(const struct hythe_buffer *buffer);

/* How many Linux ports are attached to the endpoint now. Never blocks. */
uint32_t hythe_endpoint_ports(const struct hythe_endpoint *endpoint);

/* Copies the counters of an endpoint. Never blocks. */
void hythe_endpoint_counters(const struct hythe_endpoint *endpoint,
                             struct hythe_counters *counters);

#endif
