/* Words of calls and rows as bytes in shared memory (spec/services.md, spec/control.md). */
#include "call.h"

void hythe_call_read(const volatile uint8_t *from, uint32_t words[HYTHE_CALL_WORDS])
{
    uint32_t i;

    for (i = 0; i < HYTHE_CALL_WORDS; i++, from += 4) {
        words[i] = from[0];
        words[i] |= (uint32_t)from[1] << 8;
        words[i] |= (uint32_t)from[2] << 16;
        words[i] |= (uint32_t)from[3] << 24;
    }
}

void hythe_words_write(volatile uint8_t *to, const uint32_t *words, uint32_t bytes)
{
    uint32_t i;

    for (i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(words[i / 4] >> i % 4 * 8);
    }
}

void hythe_call_write(volatile uint8_t *to, const uint32_t words[HYTHE_CALL_WORDS])
{
    hythe_words_write(to, words, HYTHE_CALL_BYTES);
}
