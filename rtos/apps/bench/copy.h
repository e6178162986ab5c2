/* The baseline: messages copied in and out in fragments, the RPMsg way (README.md). */
#ifndef COPY_H
#define COPY_H

#include "hythe_port.h"
#include "hythe_rt.h"
#include "order.h"

/* Bytes from the start of the order's buffer. */
enum {
    /* Linux: not 0 once nothing comes any more. */
    COPY_AT_OVER = 64,
    COPY_AT_RING_TO_CORE = 256,
    COPY_AT_RING_TO_LINUX = 3456,
    COPY_AT_BUFFERS_TO_CORE = 8192,
    COPY_AT_BUFFERS_TO_LINUX = 139264,
    COPY_BYTES = 270336
};

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
