/*
 * PCI as far as one device needs it: QEMU's `virt` has one bus, and firmware would have given out
 * the addresses.
 */
#include "ivshmem.h"

#include <stdint.h>

#include "gic.h"
#include "its.h"
#include "machine.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define HALF_WORD(address) (*(volatile uint16_t *)(uintptr_t)(address))

/*
 * Configuration space (PCI Local Bus 3.0, chapter 6): 4 KiB for each function, eight functions for
 * each device.
 */
#define DEVICE_BYTES 0x8000u
#define DEVICES 32
#define COMMAND 0x04u
#define COMMAND_MEMORY_AND_MASTER 6u
#define ADDRESSES 0x10u
#define CAPABILITIES 0x34u
#define CAPABILITY_MSIX 0x11u
#define MSIX_ENABLE 0x80000000u

#define VENDOR_AND_DEVICE 0x11101af4u
#define REGISTERS PCI_MEMORY
#define MSIX_TABLE (PCI_MEMORY + 0x1000)
#define UNUSED_MEMORY (PCI_MEMORY + 0x100000)
/* The peer in the upper half, its vector in the lower. */
#define REGISTER_DOORBELL (REGISTERS + 12)
/* The agent is peer 0, and has one vector. */
#define AGENT 0u

/* Until then nobody can be rung; a task looks before it sleeps, and so does the agent. */
static volatile int is_open;

static uintptr_t find(uint32_t *requester)
{
    uint32_t device;

    for (device = 0; device < DEVICES; device++) {
        uintptr_t space = PCI_CONFIGURATION + device * DEVICE_BYTES;

        if (WORD(space) == VENDOR_AND_DEVICE) {
            *requester = device << 3;
            return space;
        }
    }
    return 0;
}

/* Where MSI-X is controlled; 0: the device has none. */
static uintptr_t msix_control(uintptr_t space)
{
    uint32_t at = WORD(space + CAPABILITIES) & 0xff;

    while (at != 0) {
        uint32_t head = WORD(space + at);

        if ((head & 0xff) == CAPABILITY_MSIX) {
            return space + at;
        }
        at = head >> 8 & 0xff;
    }
    return 0;
}

int ivshmem_open(void)
{
    struct its_message message;
    uint32_t requester = 0;
    uintptr_t space = find(&requester);
    uintptr_t control = space != 0 ? msix_control(space) : 0;

    if (control == 0) {
        return -1;
    }
    WORD(space + ADDRESSES) = REGISTERS;
    WORD(space + ADDRESSES + 4) = MSIX_TABLE;
    WORD(space + ADDRESSES + 8) = UNUSED_MEMORY;
    WORD(space + ADDRESSES + 12) = 0;
    HALF_WORD(space + COMMAND) = COMMAND_MEMORY_AND_MASTER;
    message = its_open(requester, DOORBELL_PRIORITY);
    WORD(MSIX_TABLE) = message.address;
    WORD(MSIX_TABLE + 4) = 0;
    WORD(MSIX_TABLE + 8) = message.data;
    WORD(MSIX_TABLE + 12) = 0;
    WORD(control) |= MSIX_ENABLE;
    is_open = 1;
    return 0;
}

void ivshmem_ring(void)
{
    /* What was pushed before is in memory before the ring is heard. */
    __asm volatile("dsb sy" ::: "memory");
    if (is_open) {
        WORD(REGISTER_DOORBELL) = AGENT << 16;
    }
}
