/*
 * The copying transfer on the core: each message is copied out of its fragments into one buffer of
 * the core's own, and its answer from there into other fragments.
 *
 * Rings Linux only when it sleeps, once for each sleep: the side that may sleep makes its word odd,
 * looks once more, and sleeps; awake it makes the word even. A sender rings with the first
 * fragment, so that both sides work at the same time. A receiver rings a sender that has run out of
 * buffers when half of them are empty again, or nothing waits.
 */
#include "copy.h"

#include "hythe_atomic.h"
#include "payload.h"
#include "vring.h"

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

#define BUFFERS_PER_RING (VRING_BUFFERS / 2u)

struct copy {
    struct order order;
    const struct hythe_buffer *memory;
    const struct hythe_port *port;
    struct vring in;
    struct vring out;
    /* How often this side said that it sleeps, and that it does not. */
    uint32_t in_sleeps;
    uint32_t out_sleeps;
};

/* One end of a ring, as a wait sees it. */
struct looked_for {
    const struct vring *vring;
    uint32_t (*count)(const struct vring *vring);
    uint32_t sleeps_at;
    uint32_t *sleeps;
};

static uint64_t message_words[COPY_MESSAGE_BYTES_MAX / sizeof(uint64_t)];

static uint8_t *message_bytes(void)
{
    return (uint8_t *)(void *)message_words;
}

/* Linux says so, or has gone. */
static int is_over(const struct copy *copy)
{
    const volatile uint32_t *over =
        (const volatile uint32_t *)(const volatile void *)(copy->memory->data + COPY_AT_OVER);

    return hythe_load_acquire(over) != 0 || hythe_buffer_is_stale(copy->memory);
}

/* Rings the other side if it sleeps and has not been rung for this sleep. */
static void ring_sleeper(const struct copy *copy, struct vring *vring, uint32_t sleeps_at)
{
    uint32_t sleeps;

    /* Our index before its "I sleep"; its mirror image there is "I sleep" before our index. */
    hythe_fence();
    sleeps = hythe_load_acquire(vring_word(vring, sleeps_at));
    if (sleeps % 2 == 1 && sleeps != vring->rung) {
        vring->rung = sleeps;
        copy->port->ring(copy->port->context);
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

static uint32_t sleep_once(const struct copy *copy, const struct looked_for *what)
{
    uint32_t count;

    change_sleep(what);
    hythe_fence();
    count = look(what, LOOKS_BEFORE_SLEEP);
    if (count == 0) {
        copy->port->wait(copy->port->context, SLEEP_MS);
    }
    change_sleep(what);
    return count != 0 ? count : look(what, 1);
}

/* Waits until there is something; 0: it is over. */
static int wait_for(const struct copy *copy, const struct looked_for *what)
{
    uint32_t count = look(what, 1);

    while (count == 0) {
        if (copy->order.wait == ORDER_POLL) {
            count = look(what, LOOKS_PER_CHECK);
        } else {
            count = sleep_once(copy, what);
        }
        if (count == 0 && is_over(copy)) {
            return 0;
        }
    }
    return count <= VRING_BUFFERS;
}

/* Returns the bytes of the message; 0: it is over. */
static uint32_t receive_message(struct copy *copy)
{
    const struct looked_for filled = {&copy->in, vring_waiting, VRING_AT_RECEIVER_SLEEPS,
                                      &copy->in_sleeps};
    uint32_t at = 0;
    uint32_t total;

    do {
        uint32_t bytes;
        if (!wait_for(copy, &filled)) {
            return 0;
        }
        bytes = vring_get(&copy->in, message_bytes(), at, COPY_MESSAGE_BYTES_MAX, &total);
        if (bytes == 0) {
            return 0;
        }
        at += bytes;
        if (copy->in.taken % BUFFERS_PER_RING == 0 || vring_waiting(&copy->in) == 0) {
            ring_sleeper(copy, &copy->in, VRING_AT_SENDER_SLEEPS);
        }
    } while (at < total);
    return total;
}

/* 0: it is over. */
static int send_message(struct copy *copy, uint32_t total)
{
    const struct looked_for empty = {&copy->out, vring_room, VRING_AT_SENDER_SLEEPS,
                                     &copy->out_sleeps};
    uint32_t at = 0;

    while (at < total) {
        if (!wait_for(copy, &empty)) {
            return 0;
        }
        at += vring_put(&copy->out, message_bytes(), at, total);
        ring_sleeper(copy, &copy->out, VRING_AT_RECEIVER_SLEEPS);
    }
    return 1;
}

void copy_run(const struct order *order, const struct hythe_buffer *memory,
              const struct hythe_port *port)
{
    uint8_t *base = memory->data;
    struct copy copy = {.order = *order, .memory = memory, .port = port};
    uint32_t bytes;

    vring_open_receiver(&copy.in, base + COPY_AT_RING_TO_CORE, base + COPY_AT_BUFFERS_TO_CORE);
    vring_open_sender(&copy.out, base + COPY_AT_RING_TO_LINUX, base + COPY_AT_BUFFERS_TO_LINUX);
    do {
        bytes = receive_message(&copy);
        if (order->payload == ORDER_FILLED) {
            payload_fill(message_bytes(), bytes, payload_sum(message_bytes(), bytes));
        }
    } while (bytes != 0 && send_message(&copy, bytes));
}
