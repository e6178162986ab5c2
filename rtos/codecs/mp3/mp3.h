/*
 * minimp3 as every build of this repository uses it: layer III only, no SIMD, so that a core and
 * the host compute the same samples. The bodies are in mp3.c; both builds also need
 * -ffp-contract=off.
 */
#ifndef MP3_H
#define MP3_H

#define MINIMP3_ONLY_MP3
#define MINIMP3_NO_SIMD

/* minimp3 calls these without including <string.h> itself when nothing else did. */
#include <string.h>

#include "minimp3.h"

#endif
