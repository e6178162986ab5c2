/* Three plain loops over words. Whoever calls has checked sizes and alignment. */
#include "payload.h"

uint64_t payload_sum(const void *from, uint32_t bytes)
{
    const uint64_t *words = from;
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < bytes / PAYLOAD_WORD_BYTES; i++) {
        sum += words[i];
    }
    return sum;
}

void payload_fill(void *into, uint32_t bytes, uint64_t word)
{
    uint64_t *words = into;
    uint32_t i;

    for (i = 0; i < bytes / PAYLOAD_WORD_BYTES; i++) {
        words[i] = word;
    }
}

void payload_copy(void *restrict into, const void *restrict from, uint32_t bytes)
{
    uint64_t *restrict to = into;
    const uint64_t *restrict words = from;
    uint32_t i;

    for (i = 0; i < bytes / PAYLOAD_WORD_BYTES; i++) {
        to[i] = words[i];
    }
}
