/*
 * Waiting in bounded slices. Called by every blocking function, outside the lock. Never waits
 * longer than one slice at once.
 */
#include "wait.h"

#include "link.h"
#include "shared.h"

void hythe_wait_begin(struct hythe_wait *wait, struct hythe_link *link, uint32_t spin_checks,
                      uint32_t timeout_ms)
{
    wait->link = link;
    wait->timeout_ms = timeout_ms;
    wait->spin_checks = spin_checks;
    wait->spins_left = spin_checks;
    wait->start_ms = timeout_ms != 0 ? link->port->now_ms(link->port->context) : 0;
}

/* 1: do not sleep yet. Keeps `bell_wanted` true to what this task does. */
static int keep_looking(struct hythe_wait *wait)
{
    struct hythe_link *link = wait->link;
    int again = 0;

    hythe_link_lock(link);
    if (link->state == HYTHE_STATE_UP) {
        if (wait->spins_left != 0 && hythe_link_linux_polls(link)) {
            wait->spins_left--;
            again = 1;
            if (link->bell_wanted != 0) {
                hythe_link_want_bell(link, 0);
            }
        } else if (link->bell_wanted == 0) {
            /*
             * "I sleep" before Linux's tail is looked at once more; Linux writes its tail before it
             * reads this word.
             */
            hythe_link_want_bell(link, 1);
            hythe_fence();
            again = 1;
        }
    }
    hythe_link_unlock(link);
    return again;
}

int hythe_wait_again(struct hythe_wait *wait)
{
    const struct hythe_port *port = wait->link->port;
    uint32_t elapsed_ms;
    uint32_t left_ms;

    if (wait->timeout_ms == 0) {
        return 0;
    }
    if (keep_looking(wait)) {
        return 1;
    }
    elapsed_ms = port->now_ms(port->context) - wait->start_ms;
    if (elapsed_ms >= wait->timeout_ms) {
        return 0;
    }
    left_ms = wait->timeout_ms - elapsed_ms;
    port->wait(port->context, left_ms < HYTHE_WAIT_SLICE_MS ? left_ms : HYTHE_WAIT_SLICE_MS);
    wait->spins_left = wait->spin_checks;
    return 1;
}
