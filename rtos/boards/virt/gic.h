/*
 * The interrupt controller: GICv3 with its CPU interface in system registers (Arm IHI 0069). One
 * CPU.
 */
#ifndef GIC_H
#define GIC_H

#include <stdint.h>

enum {
    /* Raised by software. */
    REQUEST_INTERRUPT = 1,
    /* Of the virtual timer (Arm BSA, table 7). */
    TIMER_INTERRUPT = 27,
    SPURIOUS_INTERRUPT = 1023
};

/* The lowest usable one: FreeRTOS insists on it for its tick. */
#define TICK_PRIORITY (30 << 3)
/* Not too urgent for calling FreeRTOS (FreeRTOSConfig.h). */
#define DOORBELL_PRIORITY (28 << 3)
/* Nothing that FreeRTOS does holds this up: its handler never calls it. */
#define MEASURED_PRIORITY (8 << 3)

void gic_start(void);
/* Of the interrupts below 32, which each CPU has of its own. */
void gic_enable(unsigned interrupt, uint8_t priority);
/* Interrupts this CPU by REQUEST_INTERRUPT. */
void gic_request(void);

/* Who handles REQUEST_INTERRUPT; in measure.c. */
void request_interrupt(void);

#endif
