/*
 * The doorbell: QEMU's PCI device ivshmem-doorbell (QEMU, docs/specs/ivshmem-spec.txt). A ring
 * either way is an event that nobody waits for. Its memory is not used.
 */
#ifndef IVSHMEM_H
#define IVSHMEM_H

/*
 * Finds the device, gives it addresses, and lets it interrupt by MESSAGE_INTERRUPT. 0, or -1: there
 * is none.
 */
int ivshmem_open(void);

/* Rings the agent. From any task; never waits. */
void ivshmem_ring(void);

#endif
