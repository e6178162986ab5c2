/*
 * A ring of RPMsg: 256 buffers of 512 bytes one way, and two queues of buffer numbers, filled and
 * empty, as a split virtqueue has them. Each index has one writer. Towards the core `filled` is
 * virtio's available ring and `empty` its used ring; from the core it is the other way round, as
 * RPMsg's two virtqueues are. The Linux side of the same words is in crates/vring/src/ring.rs.
 *
 * The core sends over one and receives over another. Nothing here waits or rings: transfer.c does.
 */
#ifndef VRING_H
#define VRING_H

#include <stdint.h>

enum {
    VRING_BUFFERS = 256,
    VRING_BUFFER_BYTES = 512,
    /* RPMsg's header in each buffer: source, destination, reserved, and length with flags. */
    VRING_HEADER_BYTES = 16,
    VRING_FRAGMENT_BYTES = VRING_BUFFER_BYTES - VRING_HEADER_BYTES
};

/* Bytes from the start of a ring. The sender's line, the receiver's line, then the two queues. */
enum {
    VRING_AT_FILLED_INDEX = 0,
    VRING_AT_SENDER_SLEEPS = 4,
    VRING_AT_EMPTY_INDEX = 64,
    VRING_AT_RECEIVER_SLEEPS = 68,
    /* Buffer number and bytes of payload: two words. */
    VRING_AT_FILLED = 128,
    VRING_AT_EMPTY = VRING_AT_FILLED + 8 * VRING_BUFFERS,
    VRING_BYTES = VRING_AT_EMPTY + 4 * VRING_BUFFERS
};

/* One end of a ring. */
struct vring {
    volatile uint8_t *ring;
    uint8_t *buffers;
    /* Own counters: entries written to the one queue and taken from the other. */
    uint32_t written;
    uint32_t taken;
    /* The sleep of the other side that it was last rung for. */
    uint32_t rung;
};

/* Linux has filled both queues for a beginning: all buffers are empty. */
void vring_open_sender(struct vring *vring, volatile uint8_t *ring, uint8_t *buffers);
void vring_open_receiver(struct vring *vring, volatile uint8_t *ring, uint8_t *buffers);

/*
 * Empty buffers that may be filled, or filled ones that may be read; more than VRING_BUFFERS:
 * Linux's index is wrong.
 */
uint32_t vring_room(const struct vring *sender);
uint32_t vring_waiting(const struct vring *receiver);

/*
 * Where the payload of the next fragment is written, up to VRING_FRAGMENT_BYTES. There must be
 * room. The same again until it is sent.
 */
uint8_t *vring_fragment(const struct vring *sender);

/* Sends what was written there, a part of a message of `total` bytes. */
void vring_send(struct vring *sender, uint32_t bytes, uint32_t total);

/*
 * Copies a fragment out of its buffer, to `at` in `message`, which has room for `room` bytes in
 * all, and gives the buffer back. One must wait. Sets `total` to the bytes of the whole message.
 * Returns the fragment's bytes; 0: it makes no sense. Each but the last of a message has a multiple
 * of 8 bytes, so that `message + at` stays aligned.
 */
uint32_t vring_get(struct vring *receiver, uint8_t *message, uint32_t at, uint32_t room,
                   uint32_t *total);

/* Copies by words of 8 bytes where both places are aligned to them. They do not overlap. */
void vring_copy(void *restrict into, const void *restrict from, uint32_t bytes);

/* The word of a line, by its offset. */
volatile uint32_t *vring_word(const struct vring *vring, uint32_t offset);

#endif
