/* Meeting the core and echoing, for the board tests. */
#ifndef BOARD_ECHO_H
#define BOARD_ECHO_H

#include "agent.h"

/* The endpoints of the decoder image. */
enum {
    MP3 = 0,
    PCM = 1,
    PING = 2,
    PONG = 3,
    ALL = 4
};

/* Each waits with a bound of some seconds; 1 if it happened. */
int wait_for_core(struct agent *agent);
int wait_for_session_after(struct agent *agent, uint32_t session);
int attach_all(struct agent *agent);
int take(struct agent *agent, uint32_t endpoint, struct descriptor *descriptor);

/*
 * Echoes in one slot class: same slot, same bytes, one credit each. Prints the round trip for
 * information.
 */
void echo_rounds(struct agent *agent, uint32_t class_index, uint32_t rounds);

/* The same without a bell: Linux says that it polls, and never rings. */
void echo_polling(struct agent *agent, uint32_t class_index, uint32_t rounds);

#endif
