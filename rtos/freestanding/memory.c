/*
 * Functions on memory, plain and small. Built with -fno-tree-loop-distribute-patterns, since the
 * compiler would otherwise recognise the loops and make each function call itself.
 */
#include <stdint.h>
#include <string.h>

static int both_aligned(const void *one, const void *other)
{
    return (((uintptr_t)one | (uintptr_t)other) % sizeof(uint32_t)) == 0;
}

/* May alias anything, as the standard functions may. */
typedef uint32_t __attribute__((may_alias)) any_word;

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *target = to;
    const uint8_t *source = from;

    if (both_aligned(to, from)) {
        for (; bytes >= sizeof(any_word); bytes -= sizeof(any_word)) {
            *(any_word *)(void *)target = *(const any_word *)(const void *)source;
            target += sizeof(any_word);
            source += sizeof(any_word);
        }
    }
    for (; bytes > 0; bytes--) {
        *target++ = *source++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *target = to;
    const uint8_t *source = from;

    if ((uintptr_t)to - (uintptr_t)from >= bytes) {
        for (; bytes > 0; bytes--) {
            *target++ = *source++;
        }
    } else {
        for (; bytes > 0; bytes--) {
            target[bytes - 1] = source[bytes - 1];
        }
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *target = to;
    uint32_t word = (uint8_t)value * 0x01010101u;

    if (both_aligned(to, to)) {
        for (; bytes >= sizeof(any_word); bytes -= sizeof(any_word)) {
            *(any_word *)(void *)target = word;
            target += sizeof(any_word);
        }
    }
    for (; bytes > 0; bytes--) {
        *target++ = (uint8_t)value;
    }
    return to;
}

int memcmp(const void *one, const void *other, size_t bytes)
{
    const uint8_t *a = one;
    const uint8_t *b = other;

    for (; bytes > 0; bytes--, a++, b++) {
        if (*a != *b) {
            return *a - *b;
        }
    }
    return 0;
}

size_t strlen(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    return length;
}
