/*
 * The server's side of QEMU's ivshmem protocol (QEMU, docs/specs/ivshmem-spec.txt), for one peer.
 * Used by agent.c.
 */
#ifndef IVSHMEM_H
#define IVSHMEM_H

/*
 * Greets the emulator that has connected. Of two events, `*ring` interrupts its core, and its core
 * adds to `*rung`; the caller closes both. 1, or 0 with errno.
 */
int ivshmem_greet(int connection, int *ring, int *rung);

#endif
