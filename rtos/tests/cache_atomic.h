/*
 * Stands for port/hythe_atomic.h where the library is compiled for the cache tests (gcc -include):
 * its accesses go to the model of cache_model.h. Never used on a board.
 */
#ifndef HYTHE_ATOMIC_H
#define HYTHE_ATOMIC_H

#include "cache_model.h"

static inline uint32_t hythe_load_relaxed(const volatile uint32_t *word)
{
    return cache_load(CACHE_CORE, word, 0);
}

static inline uint32_t hythe_load_acquire(const volatile uint32_t *word)
{
    return cache_load(CACHE_CORE, word, 1);
}

static inline void hythe_store_relaxed(volatile uint32_t *word, uint32_t value)
{
    cache_store(CACHE_CORE, word, value, 0);
}

static inline void hythe_store_release(volatile uint32_t *word, uint32_t value)
{
    cache_store(CACHE_CORE, word, value, 1);
}

static inline void hythe_fence(void)
{
    cache_fence(CACHE_CORE);
}

static inline void hythe_fence_acquire(void)
{
    cache_fence_acquire(CACHE_CORE);
}

#endif
