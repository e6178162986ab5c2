/*
 * What a board and an application know of each other.
 *
 * The board's start-up code finds the shared memory, calls app_start(), and starts the scheduler.
 * The board never looks into the shared memory; the application never names a device.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

#include "FreeRTOS.h"

/*
 * For `sleep_looks` of an emulated board: so many looks take longer than a store of the host's
 * processor needs to become visible.
 */
#define SLEEP_LOOKS_EMULATED 64u

/*
 * What the board hands to the application. Without a link no memory is shared with Linux: then a
 * program tells over the console.
 */
struct board {
    volatile void *link;
    size_t link_bytes;
    void *region;
    size_t region_bytes;
    /* Bytes that Linux maps as segments; 0: none. */
    void *segments;
    size_t segments_bytes;
    /* As in struct hythe_link_config. */
    uint32_t sleep_looks;
    /* Cache maintenance of struct hythe_port; NULL: the caches are coherent. */
    void (*clean)(void *context, const volatile void *at, size_t bytes);
    void (*invalidate)(void *context, const volatile void *at, size_t bytes);
};

/* ---- Provided by the board ---- */

/*
 * Lets Linux ring: app_bell_from_isr() is called from now on. Once, from app_start() behind its
 * first task, or from a task.
 */
void board_open_doorbell(void);

/* Wakes Linux. From any task; never blocks. */
void board_ring(void);

/*
 * Writes text to the console. From any task; what does not fit at once is dropped, so it never
 * blocks.
 */
void board_write(const char *text, size_t bytes);

/* Ends this core: it has done its work. From any task. Does not return. */
void board_end(void);

/*
 * Ends this core after an error of our own. From anywhere; the agent sees the core die. Does not
 * return.
 */
void board_fail(const char *file, int line);

/* ---- Provided by the application ---- */

/* Makes links and tasks, before the scheduler runs. Uses static memory only. */
void app_start(const struct board *board);

/* The doorbell's interrupt, already cleared at the device. pdTRUE: a task switch is due. */
BaseType_t app_bell_from_isr(void);

#endif
