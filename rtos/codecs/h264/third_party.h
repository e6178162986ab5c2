/* Included in front of each file of h264bsd: its memory is the arena of heap.c. */
#ifndef THIRD_PARTY_H
#define THIRD_PARTY_H

/* Before the names mean something else. */
#include <stdlib.h>

#include "heap.h"

#define malloc h264_malloc
#define free h264_free

#endif
