/*
 * What the core does with a payload that it reads and writes. Bytes are multiples of 8, places
 * aligned to 8.
 */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include <stdint.h>

enum {
    PAYLOAD_WORD_BYTES = 8
};

/* Reads all of it: the sum of its words of 8 bytes, modulo 2^64. */
uint64_t payload_sum(const void *from, uint32_t bytes);

/* Writes all of it: this word, again and again. */
void payload_fill(void *into, uint32_t bytes, uint64_t word);

#endif
