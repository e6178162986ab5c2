/*
 * Inside of the link: how its files share their work. All
 * functions here run under the port's lock unless they say otherwise.
 */
#ifndef HYTHE_LINK_H
#define HYTHE_LINK_H

#include "hythe_rt.h"
#include "layout.h"
#include "queue.h"

/* Not under the lock. */
void hythe_link_lock(const struct hythe_link *link);
void hythe_link_unlock(const struct hythe_link *link);

/* Length of a name, at most one more than the longest that is allowed. Needs no lock. */
uint32_t hythe_name_bytes(const char *name);

/* Tells a Linux that still believes in an earlier life of this core that it is over. No lock. */
void hythe_link_end_earlier_life(struct hythe_link *link);

/* Has hythe_link_serve() nothing to do? Needs no lock; a change may be seen one call later. */
int hythe_link_is_quiet(const struct hythe_link *link);

/* hythe_link_service() without the lock. */
int hythe_link_serve(struct hythe_link *link);

/* Writes the word that says whether Linux is to ring this core. */
void hythe_link_write_bell_wanted(struct hythe_link *link);

/* Rings Linux. */
void hythe_link_ring(struct hythe_link *link);

/* ---- Buffers: take.c ---- */

/* Fills `buffer` from a claimed entry if every field fits our own geometry. Needs no lock. */
int hythe_take_accept(const struct hythe_endpoint *endpoint, struct hythe_buffer *buffer,
                      const uint32_t words[HYTHE_WORDS]);

/* The program has the buffer from now on, until give.c lets it go. */
void hythe_take_hold(struct hythe_endpoint *endpoint, uint32_t port, struct hythe_buffer *buffer);

/* Raises a counter of the endpoint, and shows it to Linux at `offset` of the endpoint's record. */
void hythe_endpoint_count(struct hythe_endpoint *endpoint, uint32_t *counter, uint32_t offset);

/* ---- Buffers: give.c ---- */

/* Word 0 of the slot of a request or reply (spec/request.md). */
enum {
    HYTHE_REQUEST_ASKED = 1,
    HYTHE_REQUEST_REPLY = 2,
    HYTHE_REQUEST_GIVEN_UP = 3
};

/* Says in the slot what the buffer is that goes back to the client. Needs no lock. */
void hythe_request_mark(const struct hythe_buffer *buffer, uint32_t kind);

/*
 * Pushes a held buffer back over the flow that it came with, and raises `counter` if that was
 * possible. Results as hythe_release().
 */
int hythe_give_back(struct hythe_buffer *buffer, uint32_t length, uint32_t *counter);

/* ---- Flows: session.c ---- */

/* Where the words and entries of one flow are. Needs a geometry that was accepted. */
void hythe_flow_look(struct hythe_flow_view *view, struct hythe_endpoint *endpoint, uint32_t port);

/* Does the endpoint's mask say that this port is attached? */
static inline int hythe_flow_is_attached(const struct hythe_endpoint *endpoint, uint32_t port)
{
    return (endpoint->attached >> port & 1u) != 0;
}

/* Is there nothing to take, and no reason why not? Needs no lock, as hythe_link_is_quiet(). */
int hythe_flow_is_quiet(const struct hythe_endpoint *endpoint, uint32_t port);

/*
 * Does Linux sleep for any of these ports (bit p for port p)? Call behind a full barrier that
 * stands behind what was pushed or raised.
 */
int hythe_flows_are_awaited(const struct hythe_endpoint *endpoint, uint32_t ports);

/* Linux's counters are broken: the flow is not used until its next session. */
int hythe_flow_quarantine(struct hythe_endpoint *endpoint, uint32_t port);

/* Linux wrote what it should not have. */
void hythe_violation(struct hythe_endpoint *endpoint);

/* Makes an endpoint ready for a new life of the link: all echoes 0, no port attached. */
void hythe_session_begin(struct hythe_endpoint *endpoint, const struct hythe_layout *layout);

/*
 * Follows what Linux wrote into the endpoint's flow lines. Returns how many echoes were written;
 * sets the link's `pending` if a change cannot be answered yet.
 */
uint32_t hythe_session_serve(struct hythe_endpoint *endpoint);

/*
 * Is the session that we echoed still the one Linux has? Asked before acting on anything that was
 * read under it.
 */
int hythe_session_is_current(const struct hythe_endpoint *endpoint, uint32_t port);

#endif
