/*
 * Reading ahead by a pack, from the first extent on, until all is read or a limit is reached.
 *
 * Called by main.c once. Whatever is in the way ends in the report. Never reads more than the
 * budget, never lets free memory fall to where the kernel would throw pages out again, and leaves
 * no handle open. One thread: nothing else runs yet.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "options.h"
#include "report.h"

/* `report` begins as zeroes. Memory for the pack stays allocated: the report names files in it. */
void replay(const struct options *options, struct report *report);

#endif
