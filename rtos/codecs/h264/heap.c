/*
 * A bump allocator with a list of what was freed. h264bsd asks for the same few sizes again
 * whenever parameter sets come again, so what is free is found by its size and never cut.
 */
#include "heap.h"

#include <stdint.h>

/* What h264bsd's structures need. */
#define ALIGNMENT 16u

struct block {
    size_t bytes;
    struct block *next_free;
};

#define HEADER_BYTES ((sizeof(struct block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

static struct {
    uint8_t arena[H264_HEAP_BYTES] __attribute__((aligned(ALIGNMENT)));
    size_t used;
    struct block *free;
} heap;

static void *payload_of(struct block *block)
{
    return (uint8_t *)block + HEADER_BYTES;
}

static struct block *take_free(size_t bytes)
{
    struct block **link;

    for (link = &heap.free; *link != NULL; link = &(*link)->next_free) {
        struct block *found = *link;
        if (found->bytes == bytes) {
            *link = found->next_free;
            return found;
        }
    }
    return NULL;
}

void *h264_malloc(size_t bytes)
{
    struct block *block;
    size_t whole;

    /* A stream may claim any size. */
    if (bytes > H264_HEAP_BYTES) {
        return NULL;
    }
    whole = HEADER_BYTES + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block = take_free(bytes);
    if (block == NULL) {
        if (whole > H264_HEAP_BYTES - heap.used) {
            return NULL;
        }
        block = (struct block *)(void *)(heap.arena + heap.used);
        heap.used += whole;
        block->bytes = bytes;
    }
    return payload_of(block);
}

void h264_free(void *payload)
{
    struct block *block;

    if (payload == NULL) {
        return;
    }
    block = (struct block *)(void *)((uint8_t *)payload - HEADER_BYTES);
    block->next_free = heap.free;
    heap.free = block;
}

void h264_heap_reset(void)
{
    heap.used = 0;
    heap.free = NULL;
}
