/* The baseline: messages copied in and out in fragments, the RPMsg way (README.md). */
#ifndef COPY_H
#define COPY_H

#include "hythe_port.h"
#include "hythe_rt.h"
#include "order.h"

/* Longest message; the core keeps one in memory of its own. */
#define COPY_MESSAGE_BYTES_MAX (1u << 20)

/*
 * Answers each message with one of the same length until Linux says that it is over, or has left.
 * `memory` is the buffer of the order; it is held meanwhile, and still held afterwards. One task
 * only.
 */
void copy_run(const struct order *order, const struct hythe_buffer *memory,
              const struct hythe_port *port);

#endif
