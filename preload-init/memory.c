/*
 * The functions that compilers call by themselves, also without a C library: copying and clearing a
 * struct.
 *
 * The empty assembler statements keep a compiler from recognising the loops, and making each
 * function call itself. Never called by name in this program.
 */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    unsigned char *target = to;
    const unsigned char *source = from;

    for (; bytes > 0; bytes--) {
        *target++ = *source++;
        __asm__ volatile("" : : : "memory");
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    unsigned char *target = to;

    for (; bytes > 0; bytes--) {
        *target++ = (unsigned char)value;
        __asm__ volatile("" : : : "memory");
    }
    return to;
}

/* What compilers for Arm call instead. */
#if defined(__arm__)
void __aeabi_memcpy(void *restrict to, const void *restrict from, size_t bytes);
void __aeabi_memcpy4(void *restrict to, const void *restrict from, size_t bytes);
void __aeabi_memcpy8(void *restrict to, const void *restrict from, size_t bytes);
void __aeabi_memclr(void *to, size_t bytes);
void __aeabi_memclr4(void *to, size_t bytes);
void __aeabi_memclr8(void *to, size_t bytes);

void __aeabi_memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    (void)memcpy(to, from, bytes);
}

void __aeabi_memcpy4(void *restrict to, const void *restrict from, size_t bytes)
{
    (void)memcpy(to, from, bytes);
}

void __aeabi_memcpy8(void *restrict to, const void *restrict from, size_t bytes)
{
    (void)memcpy(to, from, bytes);
}

void __aeabi_memclr(void *to, size_t bytes)
{
    (void)memset(to, 0, bytes);
}

void __aeabi_memclr4(void *to, size_t bytes)
{
    (void)memset(to, 0, bytes);
}

void __aeabi_memclr8(void *to, size_t bytes)
{
    (void)memset(to, 0, bytes);
}
#endif
