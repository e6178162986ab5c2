/*
 * The memory of h264bsd, which calls malloc() and free(): a static arena, reset between streams.
 *
 * Nothing else uses it. One task at a time; never blocks.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

/*
 * 320x240 takes 115 KB for each reference picture, and 0.1 MB besides: with all 16 that H.264
 * allows 2.1 MB. The boards have 4 MiB.
 */
#define H264_HEAP_BYTES (3u << 20)

/* As malloc() and free(). A freed block is used again for one of the same size only. */
void *h264_malloc(size_t bytes);
void h264_free(void *block);

/* Everything that was given out is void. */
void h264_heap_reset(void);

#endif
