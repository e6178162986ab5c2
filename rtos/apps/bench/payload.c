/* Two plain loops over words. Whoever calls has checked sizes and alignment. */
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
