/*
 * What the library needs from the platform: how to sleep, ring, lock, tell the time, and maintain
 * caches.
 *
 * Filled by rtos/port/{freertos,posix,bare} or by your own code; called by the library only. The
 * functions get `context` back. All of them run in the task that called the library, never in an
 * interrupt.
 */
#ifndef HYTHE_PORT_H
#define HYTHE_PORT_H

#include <stddef.h>
#include <stdint.h>

struct hythe_port {
    void *context;

    /*
     * Sleeps until a ring from Linux or until `timeout_ms` has passed. A ring since this task's
     * previous wait returns at once, so that no ring is lost between looking and sleeping. May
     * return early.
     */
    void (*wait)(void *context, uint32_t timeout_ms);

    /*
     * Wakes the Linux side. Must not block: a ring still under way serves for a new one, too. What
     * was stored before it is visible to a Linux that it wakes.
     */
    void (*ring)(void *context);

    /* Milliseconds since any start, modulo 2^32. */
    uint32_t (*now_ms)(void *context);

    /*
     * Guard of one link against several tasks or cores. NULL: one task only. Held for short,
     * bounded code; the library never takes it twice.
     */
    void (*lock)(void *context);
    void (*unlock)(void *context);

    /*
     * For caches that are not coherent with Linux, else NULL. `clean` writes the lines of a range
     * back to memory, `invalidate` drops them, dirty or not, so that the next load comes from
     * memory. Both complete before they return, and before any later load or store of this core.
     * Which calls the library makes, and in which order: spec/link.md, "Caches".
     */
    void (*clean)(void *context, const volatile void *at, size_t bytes);
    void (*invalidate)(void *context, const volatile void *at, size_t bytes);
};

#endif
