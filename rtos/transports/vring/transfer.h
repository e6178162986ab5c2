/*
 * Messages over two rings in one buffer, the RPMsg way: each is copied out of fragments into memory
 * of the core, and into fragments from there. The baseline that Hythe is compared with.
 *
 * The buffer comes from Linux, which has prepared it, and is held while messages travel. Used by
 * one task. Every wait ends when Linux says that it is over, when it has left, or when the program
 * says so.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "hythe_port.h"
#include "hythe_rt.h"
#include "vring.h"

/* Bytes from the start of the buffer. What is in front belongs to the program. */
enum {
    /* Linux: not 0 once nothing comes any more. */
    TRANSFER_AT_OVER = 64,
    TRANSFER_AT_RING_TO_CORE = 256,
    TRANSFER_AT_RING_TO_LINUX = 3456,
    TRANSFER_AT_BUFFERS_TO_CORE = 8192,
    TRANSFER_AT_BUFFERS_TO_LINUX = 139264,
    TRANSFER_BYTES = 270336
};

struct transfer {
    /* Set by the program, the rest zero: the buffer, held; the platform. */
    const struct hythe_buffer *memory;
    const struct hythe_port *port;
    /* It never sleeps, but looks again and again. */
    uint32_t polls;
    /* Asked between two looks or sleeps whether to end; NULL: only Linux says so. */
    int (*should_end)(const void *context);
    const void *context;
    /* Private. */
    struct vring in;
    struct vring out;
    /* How often this side said that it sleeps, and that it does not. */
    uint32_t in_sleeps;
    uint32_t out_sleeps;
    /* The message that is sent: all its bytes, those still to come, and those in `fragment`. */
    uint32_t total;
    uint32_t left;
    uint32_t filled;
    uint8_t *fragment;
};

/* HYTHE_OK; HYTHE_E_LENGTH: the buffer is too short or not aligned to 8. */
int transfer_open(struct transfer *transfer);

/*
 * Waits for a message, and copies it to `message`, which has room for `room` bytes and is aligned
 * to 8. Returns its bytes; 0: it is over, or Linux wrote what makes no sense.
 */
uint32_t transfer_receive(struct transfer *transfer, uint8_t *message, uint32_t room);

/*
 * Begins a message of so many bytes, more than 0, and adds to it, from any places, until all are
 * there; it leaves fragment by fragment. 0: it is over, or Linux wrote what makes no sense.
 */
void transfer_begin(struct transfer *transfer, uint32_t total);
int transfer_put(struct transfer *transfer, const void *from, uint32_t bytes);

#endif
