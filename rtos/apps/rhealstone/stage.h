/*
 * Three tasks that play what a measure needs, and the director that gives them their parts. A part
 * is a function that runs to its end; the director waits for all.
 */
#ifndef STAGE_H
#define STAGE_H

#include "FreeRTOS.h"
#include "task.h"

enum stage_priority {
    PRIORITY_LOW = 1,
    PRIORITY_MIDDLE = 2,
    PRIORITY_HIGH = 3,
    PRIORITY_DIRECTOR = 4
};

enum {
    STAGE_PLAYERS = 3
};

struct part {
    void (*play)(void);
    UBaseType_t priority;
};

/* Makes the players. Call once, before the scheduler runs. */
void stage_open(void);

/*
 * Plays the parts to their end; the first begins first among those of one priority. Only for the
 * director. 0: they did not end within the bound, and nothing on this core can be trusted any more.
 */
int stage_play(const struct part *parts, unsigned count);

/* The task that plays that part: for suspending and resuming. */
TaskHandle_t stage_player(unsigned index);

#endif
