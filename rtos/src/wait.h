/*
 * The one way the library waits: try, then look again a few times while Linux polls, then sleep in
 * bounded slices until the time is over. Used by every blocking function like this:
 *
 *     hythe_wait_begin(&wait, link, spin_checks, timeout_ms);
 *     do {
 *         result = try(...);
 *     } while (worth waiting for(result) && hythe_wait_again(&wait));
 *     hythe_wait_end(&wait);
 *
 * Never called under the lock.
 */
#ifndef HYTHE_WAIT_H
#define HYTHE_WAIT_H

#include "hythe_rt.h"

struct hythe_wait {
    struct hythe_link *link;
    /* When the first try had failed. */
    uint32_t start_ms;
    uint32_t began;
    uint32_t timeout_ms;
    uint32_t spin_checks;
    uint32_t spins_left;
    /* Between announcing the sleep and sleeping. */
    uint32_t looks_left;
    /* Linux was told that this task sleeps. */
    uint32_t announced;
};

void hythe_wait_begin(struct hythe_wait *wait, struct hythe_link *link, uint32_t spin_checks,
                      uint32_t timeout_ms);

/* 1: something may have changed, try again. 0: the time is over. Blocks for one slice at most. */
int hythe_wait_again(struct hythe_wait *wait);

/* Behind the loop, however it ended: Linux need not ring for this task any more. */
void hythe_wait_end(struct hythe_wait *wait);

#endif
