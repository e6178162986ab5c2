/*
 * The port without an operating system: one flag that the doorbell's interrupt raises. Called by
 * the library from the main loop; never from an interrupt, but for hythe_bare_bell().
 */
#include "hythe_bare.h"

#include "hythe_atomic.h"

static void bare_wait(void *context, uint32_t timeout_ms)
{
    struct hythe_bare *bare = context;
    uint32_t start_ms = bare->board.now_ms(bare->board.context);

    while (hythe_load_acquire(&bare->rung) == 0 &&
           bare->board.now_ms(bare->board.context) - start_ms < timeout_ms) {
        bare->board.idle(bare->board.context);
    }
    /*
     * A ring from here on is for the next wait; one from before is served by the look that follows
     * this return.
     */
    hythe_store_release(&bare->rung, 0);
}

static void bare_ring(void *context)
{
    struct hythe_bare *bare = context;

    bare->board.ring(bare->board.context);
}

static uint32_t bare_now_ms(void *context)
{
    struct hythe_bare *bare = context;

    return bare->board.now_ms(bare->board.context);
}

void hythe_bare_start(struct hythe_bare *bare, const struct hythe_bare_board *board,
                      struct hythe_port *port)
{
    bare->board = *board;
    bare->rung = 0;
    port->context = bare;
    port->wait = bare_wait;
    port->ring = bare_ring;
    port->now_ms = bare_now_ms;
    port->lock = NULL;
    port->unlock = NULL;
    port->clean = NULL;
    port->invalidate = NULL;
}

void hythe_bare_bell(struct hythe_bare *bare)
{
    hythe_store_release(&bare->rung, 1);
}
