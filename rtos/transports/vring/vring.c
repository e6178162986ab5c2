/* Both ends of a ring. Never waits; a number or a length of Linux is checked before it is used. */
#include "vring.h"

/* The compiler's builtins behind names: shared words are loaded and stored whole. */
#include <string.h>

#include "hythe_atomic.h"

enum {
    HEADER_AT_SOURCE = 0,
    HEADER_AT_DESTINATION = 1,
    HEADER_AT_TOTAL = 2,
    HEADER_AT_LENGTH = 3
};

/* Addresses of RPMsg endpoints; nobody else talks over these rings. */
#define ADDRESS_CORE 1024u
#define ADDRESS_LINUX 1025u

/* May alias anything, as memcpy() may. */
typedef uint64_t __attribute__((may_alias)) any_word;

volatile uint32_t *vring_word(const struct vring *vring, uint32_t offset)
{
    return (volatile uint32_t *)(volatile void *)(vring->ring + offset);
}

static volatile uint32_t *filled_entry(const struct vring *vring, uint32_t number)
{
    return vring_word(vring, VRING_AT_FILLED + number % VRING_BUFFERS * 8);
}

static volatile uint32_t *empty_entry(const struct vring *vring, uint32_t number)
{
    return vring_word(vring, VRING_AT_EMPTY + number % VRING_BUFFERS * 4);
}

static uint8_t *buffer_at(const struct vring *vring, uint32_t number)
{
    return vring->buffers + (number % VRING_BUFFERS) * VRING_BUFFER_BYTES;
}

static void open_end(struct vring *vring, volatile uint8_t *ring, uint8_t *buffers,
                     uint32_t written)
{
    vring->ring = ring;
    vring->buffers = buffers;
    vring->written = written;
    vring->taken = 0;
    vring->rung = 0;
}

void vring_open_sender(struct vring *vring, volatile uint8_t *ring, uint8_t *buffers)
{
    open_end(vring, ring, buffers, 0);
}

void vring_open_receiver(struct vring *vring, volatile uint8_t *ring, uint8_t *buffers)
{
    /* Linux has written an entry for each empty buffer. */
    open_end(vring, ring, buffers, VRING_BUFFERS);
}

uint32_t vring_room(const struct vring *sender)
{
    return hythe_load_acquire(vring_word(sender, VRING_AT_EMPTY_INDEX)) - sender->taken;
}

uint32_t vring_waiting(const struct vring *receiver)
{
    return hythe_load_acquire(vring_word(receiver, VRING_AT_FILLED_INDEX)) - receiver->taken;
}

uint8_t *vring_fragment(const struct vring *sender)
{
    uint32_t number = hythe_load_relaxed(empty_entry(sender, sender->taken));

    return buffer_at(sender, number) + VRING_HEADER_BYTES;
}

void vring_send(struct vring *sender, uint32_t bytes, uint32_t total)
{
    uint32_t number = hythe_load_relaxed(empty_entry(sender, sender->taken));
    uint32_t *header = (uint32_t *)(void *)buffer_at(sender, number);
    volatile uint32_t *entry = filled_entry(sender, sender->written);

    sender->taken++;
    header[HEADER_AT_SOURCE] = ADDRESS_CORE;
    header[HEADER_AT_DESTINATION] = ADDRESS_LINUX;
    header[HEADER_AT_TOTAL] = total;
    header[HEADER_AT_LENGTH] = bytes;
    hythe_store_relaxed(&entry[0], number);
    hythe_store_relaxed(&entry[1], VRING_HEADER_BYTES + bytes);
    sender->written++;
    hythe_store_release(vring_word(sender, VRING_AT_FILLED_INDEX), sender->written);
}

/* Is it a part of a message that fits, and leaves the next one aligned? */
static int is_part(uint32_t bytes, uint32_t at, uint32_t total, uint32_t room)
{
    if (bytes == 0 || bytes > VRING_FRAGMENT_BYTES || total > room || at > total ||
        bytes > total - at) {
        return 0;
    }
    return bytes % sizeof(any_word) == 0 || at + bytes == total;
}

uint32_t vring_get(struct vring *receiver, uint8_t *message, uint32_t at, uint32_t room,
                   uint32_t *total)
{
    uint32_t number = hythe_load_relaxed(filled_entry(receiver, receiver->taken));
    const uint8_t *buffer = buffer_at(receiver, number);
    const volatile uint32_t *header = (const volatile uint32_t *)(const volatile void *)buffer;
    uint32_t bytes = header[HEADER_AT_LENGTH];

    *total = header[HEADER_AT_TOTAL];
    if (!is_part(bytes, at, *total, room)) {
        return 0;
    }
    receiver->taken++;
    vring_copy(message + at, buffer + VRING_HEADER_BYTES, bytes);
    hythe_store_relaxed(empty_entry(receiver, receiver->written), number % VRING_BUFFERS);
    receiver->written++;
    hythe_store_release(vring_word(receiver, VRING_AT_EMPTY_INDEX), receiver->written);
    return bytes;
}

void vring_copy(void *restrict into, const void *restrict from, uint32_t bytes)
{
    uint8_t *to = into;
    const uint8_t *source = from;
    uint32_t i = 0;

    if (((uintptr_t)into | (uintptr_t)from) % sizeof(any_word) == 0) {
        for (; i + sizeof(any_word) <= bytes; i += (uint32_t)sizeof(any_word)) {
            *(any_word *)(void *)(to + i) = *(const any_word *)(const void *)(source + i);
        }
    }
    memcpy(to + i, source + i, bytes - i);
}
