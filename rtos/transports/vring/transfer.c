/*
 * Waiting and ringing around two rings.
 *
 * Rings Linux only when it sleeps, once for each sleep: the side that may sleep makes its word odd,
 * looks once more, and sleeps; awake it makes the word even. A sender rings with the first
 * fragment, so that both sides work at the same time. A receiver rings a sender that has run out of
 * buffers when half of them are empty again, or nothing waits.
 */
#include "transfer.h"

#include "hythe_atomic.h"

/* Bounds a sleep; what an emulator may lose costs that much. As long as the library's. */
#define SLEEP_MS HYTHE_WAIT_SLICE_MS

/*
 * Looks between "I sleep" and the sleep. An emulator may drop the barrier between the two stores
 * and loads that must not pass each other; after so many looks the store has left the host's store
 * buffer.
 */
#define LOOKS_BEFORE_SLEEP 64u

/* Polling, whether Linux is still there is looked at this seldom. */
#define LOOKS_PER_CHECK (1u << 16)

/* A sender that has run out of buffers is rung when so many are empty again. */
#define EMPTY_ENOUGH (VRING_BUFFERS / 2u)

#define ALIGNMENT 8u

/* One end of a ring, as a wait sees it. */
struct looked_for {
    const struct vring *vring;
    uint32_t (*count)(const struct vring *vring);
    uint32_t sleeps_at;
    uint32_t *sleeps;
};

/* Linux says so, or has left, or the program says so. */
static int is_over(const struct transfer *transfer)
{
    const volatile uint32_t *over =
        (const volatile uint32_t *)(const volatile void *)(transfer->memory->data +
                                                           TRANSFER_AT_OVER);

    return hythe_load_acquire(over) != 0 || hythe_buffer_is_stale(transfer->memory) ||
           (transfer->should_end != NULL && transfer->should_end(transfer->context));
}

/* Rings the other side if it sleeps and has not been rung for this sleep. */
static void ring_sleeper(const struct transfer *transfer, struct vring *vring, uint32_t sleeps_at)
{
    uint32_t sleeps;

    /* Our index before its "I sleep"; its mirror image there is "I sleep" before our index. */
    hythe_fence();
    sleeps = hythe_load_acquire(vring_word(vring, sleeps_at));
    if (sleeps % 2 == 1 && sleeps != vring->rung) {
        vring->rung = sleeps;
        transfer->port->ring(transfer->port->context);
    }
}

static uint32_t look(const struct looked_for *what, uint32_t looks)
{
    uint32_t count = 0;

    while (count == 0 && looks > 0) {
        count = what->count(what->vring);
        looks--;
    }
    return count;
}

static void change_sleep(const struct looked_for *what)
{
    (*what->sleeps)++;
    hythe_store_release(vring_word(what->vring, what->sleeps_at), *what->sleeps);
}

static uint32_t sleep_once(const struct transfer *transfer, const struct looked_for *what)
{
    uint32_t count;

    change_sleep(what);
    hythe_fence();
    count = look(what, LOOKS_BEFORE_SLEEP);
    if (count == 0) {
        transfer->port->wait(transfer->port->context, SLEEP_MS);
    }
    change_sleep(what);
    return count != 0 ? count : look(what, 1);
}

/* Waits until there is something; 0: it is over, or Linux's index makes no sense. */
static int wait_for(const struct transfer *transfer, const struct looked_for *what)
{
    uint32_t count = look(what, 1);

    while (count == 0) {
        if (transfer->polls) {
            count = look(what, LOOKS_PER_CHECK);
        } else {
            count = sleep_once(transfer, what);
        }
        if (count == 0 && is_over(transfer)) {
            return 0;
        }
    }
    return count <= VRING_BUFFERS;
}

int transfer_open(struct transfer *transfer)
{
    uint8_t *base = transfer->memory->data;

    if (transfer->memory->length < TRANSFER_BYTES || (uintptr_t)base % ALIGNMENT != 0) {
        return HYTHE_E_LENGTH;
    }
    vring_open_receiver(&transfer->in, base + TRANSFER_AT_RING_TO_CORE,
                        base + TRANSFER_AT_BUFFERS_TO_CORE);
    vring_open_sender(&transfer->out, base + TRANSFER_AT_RING_TO_LINUX,
                      base + TRANSFER_AT_BUFFERS_TO_LINUX);
    return HYTHE_OK;
}

uint32_t transfer_receive(struct transfer *transfer, uint8_t *message, uint32_t room)
{
    const struct looked_for filled = {&transfer->in, vring_waiting, VRING_AT_RECEIVER_SLEEPS,
                                      &transfer->in_sleeps};
    uint32_t at = 0;
    uint32_t total;

    do {
        uint32_t bytes;
        if (!wait_for(transfer, &filled)) {
            return 0;
        }
        bytes = vring_get(&transfer->in, message, at, room, &total);
        if (bytes == 0) {
            return 0;
        }
        at += bytes;
        if (transfer->in.taken % EMPTY_ENOUGH == 0 || vring_waiting(&transfer->in) == 0) {
            ring_sleeper(transfer, &transfer->in, VRING_AT_SENDER_SLEEPS);
        }
    } while (at < total);
    return total;
}

void transfer_begin(struct transfer *transfer, uint32_t total)
{
    transfer->total = total;
    transfer->left = total;
    transfer->filled = 0;
    transfer->fragment = NULL;
}

int transfer_put(struct transfer *transfer, const void *from, uint32_t bytes)
{
    const struct looked_for empty = {&transfer->out, vring_room, VRING_AT_SENDER_SLEEPS,
                                     &transfer->out_sleeps};
    const uint8_t *source = from;

    while (bytes > 0) {
        uint32_t part = VRING_FRAGMENT_BYTES - transfer->filled;
        part = part < bytes ? part : bytes;
        if (transfer->fragment == NULL) {
            if (!wait_for(transfer, &empty)) {
                return 0;
            }
            transfer->fragment = vring_fragment(&transfer->out);
        }
        vring_copy(transfer->fragment + transfer->filled, source, part);
        source += part;
        bytes -= part;
        transfer->filled += part;
        transfer->left -= part;
        if (transfer->filled == VRING_FRAGMENT_BYTES || transfer->left == 0) {
            vring_send(&transfer->out, transfer->filled, transfer->total);
            transfer->filled = 0;
            transfer->fragment = NULL;
            ring_sleeper(transfer, &transfer->out, VRING_AT_RECEIVER_SLEEPS);
        }
    }
    return 1;
}
