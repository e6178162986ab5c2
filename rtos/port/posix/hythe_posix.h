/*
 * Port for a POSIX process without an RTOS: the doorbell is a connected stream socket, the lock a
 * mutex.
 *
 * For tests and for programs that play a core. If several threads wait, each ring reaches one of
 * them at once and the others with their next slice (HYTHE_WAIT_SLICE_MS).
 */
#ifndef HYTHE_POSIX_H
#define HYTHE_POSIX_H

#include <pthread.h>

#include "hythe_port.h"

/* Caller-owned; must outlive the link. */
struct hythe_posix {
    int doorbell;
    pthread_mutex_t mutex;
};

/* Fills `port`. `doorbell` stays the caller's to close. 0, or the error of pthread_mutex_init(). */
int hythe_posix_start(struct hythe_posix *posix, int doorbell, struct hythe_port *port);

#endif
