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
    wait->looks_left = 0;
    wait->announced = 0;
    wait->start_ms = 0;
    wait->began = 0;
}

/* A task that is killed in its sleep does not say that it woke. */
static void track(const struct hythe_link *link, uint32_t sleeps)
{
    if (link->tracker != NULL) {
        link->tracker->sleeps(link->tracker, sleeps);
    }
}

/* "I sleep", before the tail of Linux is looked at once more. 0: there is nobody to say it to. */
static int announce(struct hythe_wait *wait)
{
    struct hythe_link *link = wait->link;

    hythe_link_lock(link);
    if (link->state == HYTHE_STATE_UP) {
        wait->announced = 1;
        wait->looks_left = link->sleep_looks;
        link->sleepers++;
        track(link, 1);
        hythe_link_write_bell_wanted(link);
        /* Linux writes its tail before it reads that word. */
        hythe_fence();
    }
    hythe_link_unlock(link);
    return wait->announced != 0;
}

/* 1: do not sleep yet. */
static int keep_looking(struct hythe_wait *wait)
{
    if (wait->spins_left != 0) {
        wait->spins_left--;
        return 1;
    }
    if (wait->announced == 0) {
        return announce(wait);
    }
    if (wait->looks_left != 0) {
        wait->looks_left--;
        return 1;
    }
    return 0;
}

int hythe_wait_again(struct hythe_wait *wait)
{
    const struct hythe_port *port = wait->link->port;
    uint32_t elapsed_ms;
    uint32_t left_ms;

    if (wait->timeout_ms == 0) {
        return 0;
    }
    if (!wait->began) {
        wait->began = 1;
        wait->start_ms = port->now_ms(port->context);
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

void hythe_wait_end(struct hythe_wait *wait)
{
    struct hythe_link *link = wait->link;

    if (wait->announced == 0) {
        return;
    }
    hythe_link_lock(link);
    link->sleepers--;
    track(link, 0);
    if (link->state == HYTHE_STATE_UP) {
        hythe_link_write_bell_wanted(link);
    }
    hythe_link_unlock(link);
}
