/* Decoding on a core and on the host, compared. */
#ifndef BOARD_DECODE_H
#define BOARD_DECODE_H

#include "agent.h"

/*
 * Sends the frames of a file, many per slot, through "mp3", and compares what comes over "pcm" with
 * the reference.
 */
void decode_file(struct agent *agent, const char *path, const char *reference);

#endif
