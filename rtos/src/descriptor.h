/*
 * The 32 bytes of an entry (spec/link.md) as eight words; the first four are the descriptor
 * (spec/descriptor.md). Used by take.c, give.c, queue.c and the tests.
 */
#ifndef HYTHE_DESCRIPTOR_H
#define HYTHE_DESCRIPTOR_H

#include <stdint.h>

#define HYTHE_LENGTH_CREDIT 0xFFFFFFFFu
#define HYTHE_LENGTH_UNUSED 0xFFFFFFFEu
#define HYTHE_GENERATION_MAX 0x00FFFFFFu

/* Index of the words in struct hythe_buffer and in a ring entry. */
enum {
    HYTHE_WORD_PLACE = 0,
    HYTHE_WORD_GENERATION = 1,
    HYTHE_WORD_OFFSET = 2,
    HYTHE_WORD_LENGTH = 3,
    HYTHE_WORD_ACCOUNT = 4,
    HYTHE_WORD_REFERENCES = 5,
    HYTHE_WORD_TAG = 6,
    HYTHE_WORDS = 8
};

static inline uint32_t hythe_place(uint32_t region, uint32_t slot)
{
    return region << 24 | slot;
}

static inline uint32_t hythe_place_region(uint32_t place)
{
    return place >> 24;
}

static inline uint32_t hythe_place_slot(uint32_t place)
{
    return place & 0x00FFFFFFu;
}

#endif
