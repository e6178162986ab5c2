/*
 * The interrupt translation service of the GICv3 (Arm IHI 0069, chapter 5): turns what a device
 * writes into an interrupt of this CPU. One device, one interrupt.
 */
#ifndef ITS_H
#define ITS_H

#include <stdint.h>

/* The interrupt that devices' messages become: the first of the LPIs. */
#define MESSAGE_INTERRUPT 8192u

/* Where a device writes, and what, to interrupt. */
struct its_message {
    uint32_t address;
    uint32_t data;
};

/* Lets the device with this requester ID interrupt by messages. Once, behind gic_start(). */
struct its_message its_open(uint32_t requester, uint8_t priority);

#endif
