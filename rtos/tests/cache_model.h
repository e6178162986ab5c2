/*
 * Two processors and one memory, for tests of ordering and cache maintenance. Called by
 * cache_linux.c, cache_life.c and, through cache_atomic.h, by the library.
 *
 * CACHE_COHERENT: memory is coherent but weakly ordered, as a view machine. Each word has its last
 * values; a load returns any of them that is not older than what this processor knows of. An
 * acquire load of a released value passes on what its writer knew, a fence what all fences before
 * it knew. Nothing else does. (No load returns a value that is stored later.)
 *
 * CACHE_PRIVATE: loads and stores happen in order, but in lines of the processor's own. Only clean
 * writes a line back and only invalidate drops it, and besides, at random moments, dirty lines are
 * written back, clean ones dropped, and absent ones fetched. How often, and how long a line is (one
 * word to 64 bytes: nothing may rest on what stands beside it), is drawn from the seed.
 *
 * One simulation at a time; single-threaded. Never touches time: all is decided by the seed.
 */
#ifndef CACHE_MODEL_H
#define CACHE_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum cache_cpu {
    CACHE_CORE = 0,
    CACHE_LINUX = 1,
    CACHE_CPUS = 2
};

enum cache_kind {
    CACHE_COHERENT = 0,
    CACHE_PRIVATE = 1
};

#define CACHE_MEMORY_BYTES 20736u

/*
 * Memory filled with zeros, empty caches. `between` runs between two accesses of the core, and in
 * front of what it does to its cache.
 */
void cache_begin(enum cache_kind kind, uint64_t seed, void (*between)(void *), void *context);

/* The address space of both: these bytes are only touched by the functions below. */
uint8_t *cache_memory(void);

/* 0 to most - 1. */
uint32_t cache_random(uint32_t most);

uint32_t cache_load(enum cache_cpu cpu, const volatile uint32_t *word, int is_acquire);
void cache_store(enum cache_cpu cpu, volatile uint32_t *word, uint32_t value, int is_release);
/* The newest value that this processor stored into a word of its own. Changes nothing. */
uint32_t cache_peek(enum cache_cpu cpu, const volatile uint32_t *word);
void cache_fence(enum cache_cpu cpu);
void cache_fence_acquire(enum cache_cpu cpu);

/* Nothing happens where memory is coherent. */
void cache_clean(enum cache_cpu cpu, const volatile void *at, size_t bytes);
void cache_invalidate(enum cache_cpu cpu, const volatile void *at, size_t bytes);

/* The doorbell: `cpu` that was rung knows what the other one did before it rang. */
void cache_ring(enum cache_cpu from);
void cache_rung(enum cache_cpu cpu);

/* The processor is reset: what its cache has is lost. */
void cache_reset(enum cache_cpu cpu);

/* Has the whole memory in the cache, as a program that ran before leaves it. */
void cache_fill(enum cache_cpu cpu);

/* How many dirty lines of this range the cache has. */
uint32_t cache_dirty_lines(enum cache_cpu cpu, const volatile void *at, size_t bytes);

#endif
