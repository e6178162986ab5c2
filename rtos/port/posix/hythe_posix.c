/*
 * The POSIX port: poll() on the doorbell, one mutex, the monotonic clock. Called by the library
 * from any thread. Never blocks without a bound, and is never killed by a doorbell whose other end
 * is gone.
 */
#define _POSIX_C_SOURCE 200809L

#include "hythe_posix.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

static void posix_wait(void *context, uint32_t timeout_ms)
{
    struct hythe_posix *posix = context;
    struct pollfd bell = {.fd = posix->doorbell, .events = POLLIN};
    char bytes[64];

    if (poll(&bell, 1, timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms) > 0) {
        /* One read: what is left in the socket only makes the next wait return at once. */
        (void)recv(posix->doorbell, bytes, sizeof bytes, MSG_DONTWAIT);
    }
}

static void posix_ring(void *context)
{
    struct hythe_posix *posix = context;

    /* A full socket holds rings enough, and a closed one has nobody to wake. */
    (void)send(posix->doorbell, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static uint32_t posix_now_ms(void *context)
{
    struct timespec now;

    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u);
}

static void posix_lock(void *context)
{
    struct hythe_posix *posix = context;

    (void)pthread_mutex_lock(&posix->mutex);
}

static void posix_unlock(void *context)
{
    struct hythe_posix *posix = context;

    (void)pthread_mutex_unlock(&posix->mutex);
}

int hythe_posix_start(struct hythe_posix *posix, int doorbell, struct hythe_port *port)
{
    posix->doorbell = doorbell;
    port->context = posix;
    port->wait = posix_wait;
    port->ring = posix_ring;
    port->now_ms = posix_now_ms;
    port->lock = posix_lock;
    port->unlock = posix_unlock;
    port->clean = NULL;
    port->invalidate = NULL;
    return pthread_mutex_init(&posix->mutex, NULL);
}
