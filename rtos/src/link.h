/*
 * Inside of the link: how its files share their work. All
 * functions here run under the port's lock unless they say otherwise.
 */
#ifndef HYTHE_LINK_H
#define HYTHE_LINK_H

#include "hythe_rt.h"
#include "queue.h"

/* Not under the lock. */
void hythe_link_lock(const struct hythe_link *link);
void hythe_link_unlock(const struct hythe_link *link);

/* Length of a name, at most one more than the longest that is allowed. Needs no lock. */
uint32_t hythe_name_bytes(const char *name);

/* Tells a Linux that still believes in an earlier life of this core that it is over. No lock. */
void hythe_link_end_earlier_life(struct hythe_link *link);

/* hythe_link_service() without the lock. */
int hythe_link_serve(struct hythe_link *link);

/* The link's word for "this core sleeps, ring it". */
void hythe_link_want_bell(struct hythe_link *link, uint32_t wanted);

/* Does Linux say that it polls? Then it does not sleep, and we need not, either. */
int hythe_link_linux_polls(const struct hythe_link *link);

/* Rings Linux if it wants to be rung after a push. */
void hythe_link_ring(struct hythe_link *link);

/* ---- Buffers: give.c ---- */

/* Word 0 of the slot of a request or reply (spec/request.md). */
enum {
    HYTHE_REQUEST_REPLY = 2,
    HYTHE_REQUEST_GIVEN_UP = 3
};

/* Says in the slot what the buffer is that goes back to the client. Needs no lock. */
void hythe_request_mark(const struct hythe_buffer *buffer, uint32_t kind);

/* Pushes a held buffer back over the flow that it came with. Results as hythe_release(). */
int hythe_give_back(struct hythe_buffer *buffer, uint32_t length);

/* ---- Flows: session.c ---- */

/* Where the words and entries of one flow are. Needs a geometry that was accepted. */
void hythe_flow_look(struct hythe_flow_view *view, struct hythe_endpoint *endpoint, uint32_t port);

/* Does the endpoint's mask say that this port is attached? */
int hythe_flow_is_attached(const struct hythe_endpoint *endpoint, uint32_t port);

/* Linux's counters are broken: the flow is not used until its next session. */
int hythe_flow_quarantine(struct hythe_endpoint *endpoint, uint32_t port);

/* Makes an endpoint ready for a new life of the link: all echoes 0, no port attached. */
void hythe_session_begin(struct hythe_endpoint *endpoint);

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
