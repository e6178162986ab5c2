/*
 * Single loads and stores of words shared with Linux.
 *
 * Used by the library only. Strict C99 has no <stdatomic.h>, so this is the one place that names
 * the compiler's builtins. Both words of a pair are 32 bits and aligned, which every port does in
 * one access. Never a read-modify-write: each shared word has one writer.
 */
#ifndef HYTHE_ATOMIC_H
#define HYTHE_ATOMIC_H

#include <stdint.h>

static inline uint32_t hythe_load_relaxed(const volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/*
 * Pairs with the other side's release store of the same word: what was written before it is visible
 * after this.
 */
static inline uint32_t hythe_load_acquire(const volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void hythe_store_relaxed(volatile uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* Pairs with the other side's acquire load of the same word. */
static inline void hythe_store_release(volatile uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/*
 * Orders a store before a later load: "my push" before "does the other side sleep?", and its mirror
 * image there.
 */
static inline void hythe_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * Orders earlier loads before later ones: "the entry as it was" before "is the session still the
 * same?".
 */
static inline void hythe_fence_acquire(void)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

#endif
