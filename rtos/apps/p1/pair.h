/* Methods by which a benchmark has this core write and read a segment (README.md). */
#ifndef PAIR_H
#define PAIR_H

#include "segments.h"

#define PAIR_METHODS 2

/* Writes the methods into a table. */
void pair_methods(struct segments *segments, struct hythe_rpc_method *table);

#endif
