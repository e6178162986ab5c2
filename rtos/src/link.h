/*
 * Inside of the link: how link.c, session.c, wait.c and endpoint.c share their work. All functions here run under the
 * port's lock unless they say otherwise.
 */
#ifndef HYTHE_LINK_H
#define HYTHE_LINK_H

#include "hythe_rt.h"
#include "layout.h"

/* Not under the lock. */
void hythe_link_lock(const struct hythe_link *link);
void hythe_link_unlock(const struct hythe_link *link);

/* hythe_link_service() without the lock. */
int hythe_link_serve(struct hythe_link *link);

/* The link's word for "this core sleeps, ring it". */
void hythe_link_want_bell(struct hythe_link *link, uint32_t wanted);

/* Does Linux say that it polls? Then it does not sleep, and we need not, either. */
int hythe_link_linux_polls(const struct hythe_link *link);

/* Rings Linux if it wants to be rung after a push. */
void hythe_link_ring(struct hythe_link *link);

/* Makes an endpoint ready for a new life of the link, after the core section was found: echo 0, nobody attached. */
void hythe_session_begin(struct hythe_endpoint *endpoint, uint32_t index, const struct hythe_layout *layout);

/* Follows what Linux wrote into the endpoint's flow line. Returns 1 if an echo was written. */
int hythe_session_serve(struct hythe_endpoint *endpoint);

/* Is the session that we echoed still the one Linux has? Asked before acting on anything read under it. */
int hythe_session_is_current(const struct hythe_endpoint *endpoint);

#endif
