/*
 * Port for a core without an operating system: one main loop and interrupts. No lock, since only
 * the main loop calls the library.
 */
#ifndef HYTHE_BARE_H
#define HYTHE_BARE_H

#include "hythe_port.h"

/* What the board provides. */
struct hythe_bare_board {
    void *context;
    /* Wakes Linux; must not block. */
    void (*ring)(void *context);
    /* Milliseconds, modulo 2^32; a counter that a timer interrupt raises will do. */
    uint32_t (*now_ms)(void *context);
    /*
     * Sleeps until any interrupt (wfi, hlt), or does nothing. A bell between our look and this call
     * is noticed with the interrupt after it, so a timer interrupt bounds the delay.
     */
    void (*idle)(void *context);
};

/* Caller-owned; must outlive the link. */
struct hythe_bare {
    struct hythe_bare_board board;
    volatile uint32_t rung;
};

/* Fills `port`. */
void hythe_bare_start(struct hythe_bare *bare, const struct hythe_bare_board *board,
                      struct hythe_port *port);

/* Call from the doorbell's interrupt, after clearing it at the device. */
void hythe_bare_bell(struct hythe_bare *bare);

#endif
