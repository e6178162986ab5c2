/*
 * The model of cache_model.h. Words and lines are found by their offset in one memory; the coherent
 * one keeps histories of words, the other one copies of lines. Called by the cache tests only.
 * Never fails: what goes wrong is seen by the tests.
 */
#include "cache_model.h"

#include <stdlib.h>
#include <string.h>

#define WORDS (CACHE_MEMORY_BYTES / 4)
/* Of the shortest. */
#define LINES WORDS
#define LINE_BYTES_MAX 64u
/* Values of a word that a load can still return. */
#define KEPT 8u

/* How many stores of each processor are known. */
struct knowledge {
    uint32_t stores[CACHE_CPUS];
};

struct message {
    uint32_t value;
    enum cache_cpu writer;
    /* The number of this store among its writer's. */
    uint32_t number;
    /* What one learns by an acquire load of it. */
    struct knowledge carries;
};

struct word {
    /* How many values it had; message i is at i % KEPT. */
    uint32_t count;
    struct message messages[KEPT];
    /* No processor goes back behind what it has seen. */
    uint32_t seen[CACHE_CPUS];
};

struct line {
    int is_valid;
    int is_dirty;
    uint8_t bytes[LINE_BYTES_MAX];
};

struct cpu {
    uint32_t stores;
    struct knowledge knows;
    /* What relaxed loads found, for the next fence; what the last fence knew; what a ring tells. */
    struct knowledge found;
    struct knowledge fenced;
    struct knowledge rang;
    struct line lines[LINES];
};

static struct {
    _Alignas(4096) uint8_t memory[CACHE_MEMORY_BYTES];
    enum cache_kind kind;
    uint32_t line_bytes;
    /* One access of so many is disturbed; 0: none. */
    uint32_t disturbed;
    uint64_t random;
    void (*between)(void *);
    void *context;
    int is_between;
    struct word words[WORDS];
    struct cpu cpus[CACHE_CPUS];
    struct knowledge fences;
} model;

static const uint32_t LINE_BYTES[] = {4, 32, 64};
static const uint32_t DISTURBED[] = {0, 1, 2, 64};

void cache_begin(enum cache_kind kind, uint64_t seed, void (*between)(void *), void *context)
{
    memset(&model, 0, sizeof model);
    model.kind = kind;
    model.random = seed * 0x9E3779B97F4A7C15u + 1;
    model.between = between;
    model.context = context;
    model.line_bytes = LINE_BYTES[cache_random(sizeof LINE_BYTES / sizeof *LINE_BYTES)];
    model.disturbed = DISTURBED[cache_random(sizeof DISTURBED / sizeof *DISTURBED)];
}

uint8_t *cache_memory(void)
{
    return model.memory;
}

uint32_t cache_random(uint32_t most)
{
    model.random ^= model.random << 13;
    model.random ^= model.random >> 7;
    model.random ^= model.random << 17;
    return (uint32_t)((model.random >> 32) % most);
}

static size_t offset_of(const volatile void *at)
{
    size_t offset = (size_t)((const volatile uint8_t *)at - model.memory);

    if (offset >= CACHE_MEMORY_BYTES) {
        abort();
    }
    return offset;
}

/* ---- Coherent, weakly ordered ---- */

static void learn(struct knowledge *knows, const struct knowledge *more)
{
    int i;

    for (i = 0; i < CACHE_CPUS; i++) {
        if (more->stores[i] > knows->stores[i]) {
            knows->stores[i] = more->stores[i];
        }
    }
}

static uint32_t coherent_load(enum cache_cpu cpu, size_t offset, int is_acquire)
{
    struct word *word = &model.words[offset / 4];
    struct cpu *self = &model.cpus[cpu];
    uint32_t oldest = word->seen[cpu];
    const struct message *message;
    uint32_t i;

    if (word->count == 0) {
        return 0;
    }
    if (word->count > KEPT && oldest < word->count - KEPT + 1) {
        oldest = word->count - KEPT + 1;
    }
    /* `seen` counts from 1; 0 is the zero that memory began with. */
    for (i = oldest + 1; i <= word->count; i++) {
        message = &word->messages[(i - 1) % KEPT];
        if (message->number <= self->knows.stores[message->writer]) {
            oldest = i;
        }
    }
    i = cache_random(2) == 0 ? word->count : oldest + cache_random(word->count - oldest + 1);
    word->seen[cpu] = i;
    if (i == 0) {
        return 0;
    }
    message = &word->messages[(i - 1) % KEPT];
    learn(is_acquire ? &self->knows : &self->found, &message->carries);
    return message->value;
}

static void coherent_store(enum cache_cpu cpu, size_t offset, uint32_t value, int is_release)
{
    struct word *word = &model.words[offset / 4];
    struct cpu *self = &model.cpus[cpu];
    struct message *message = &word->messages[word->count % KEPT];

    self->stores++;
    self->knows.stores[cpu] = self->stores;
    message->value = value;
    message->writer = cpu;
    message->number = self->stores;
    message->carries = is_release ? self->knows : self->fenced;
    word->count++;
    word->seen[cpu] = word->count;
}

void cache_fence(enum cache_cpu cpu)
{
    struct cpu *self = &model.cpus[cpu];

    learn(&self->knows, &self->found);
    learn(&self->knows, &model.fences);
    model.fences = self->knows;
    self->fenced = self->knows;
}

void cache_fence_acquire(enum cache_cpu cpu)
{
    learn(&model.cpus[cpu].knows, &model.cpus[cpu].found);
}

void cache_ring(enum cache_cpu from)
{
    model.cpus[from].rang = model.cpus[from].knows;
}

void cache_rung(enum cache_cpu cpu)
{
    learn(&model.cpus[cpu].knows, &model.cpus[CACHE_CPUS - 1 - cpu].rang);
}

/* ---- Caches of their own ---- */

static void write_back(enum cache_cpu cpu, size_t number)
{
    struct line *line = &model.cpus[cpu].lines[number];

    if (line->is_valid && line->is_dirty) {
        memcpy(model.memory + number * model.line_bytes, line->bytes, model.line_bytes);
        line->is_dirty = 0;
    }
}

static struct line *fetch(enum cache_cpu cpu, size_t number)
{
    struct line *line = &model.cpus[cpu].lines[number];

    if (!line->is_valid) {
        memcpy(line->bytes, model.memory + number * model.line_bytes, model.line_bytes);
        line->is_valid = 1;
        line->is_dirty = 0;
    }
    return line;
}

/* What a cache does by itself. */
static void disturb(void)
{
    enum cache_cpu cpu = cache_random(CACHE_CPUS);
    size_t number = cache_random(CACHE_MEMORY_BYTES / model.line_bytes);
    struct line *line = &model.cpus[cpu].lines[number];

    if (!line->is_valid) {
        (void)fetch(cpu, number);
    } else if (line->is_dirty) {
        write_back(cpu, number);
    } else if (cache_random(4) == 0) {
        line->is_valid = 0;
    }
}

static size_t first_line(const volatile void *at)
{
    return offset_of(at) / model.line_bytes;
}

static size_t end_line(const volatile void *at, size_t bytes)
{
    return bytes == 0 ? first_line(at) : (offset_of(at) + bytes - 1) / model.line_bytes + 1;
}

void cache_reset(enum cache_cpu cpu)
{
    size_t i;

    for (i = 0; i < LINES; i++) {
        model.cpus[cpu].lines[i].is_valid = 0;
    }
}

void cache_fill(enum cache_cpu cpu)
{
    size_t i;

    for (i = 0; i < CACHE_MEMORY_BYTES / model.line_bytes; i++) {
        (void)fetch(cpu, i);
    }
}

uint32_t cache_dirty_lines(enum cache_cpu cpu, const volatile void *at, size_t bytes)
{
    uint32_t count = 0;
    size_t i;

    for (i = first_line(at); i < end_line(at, bytes); i++) {
        const struct line *line = &model.cpus[cpu].lines[i];
        count += line->is_valid && line->is_dirty;
    }
    return count;
}

/* ---- Both ---- */

/* `among`: Linux acts before one access of so many. */
static void before_access(enum cache_cpu cpu, uint32_t among)
{
    if (model.kind == CACHE_PRIVATE && model.disturbed != 0 && cache_random(model.disturbed) == 0) {
        disturb();
    }
    if (cpu == CACHE_CORE && !model.is_between && cache_random(among) == 0) {
        model.is_between = 1;
        model.between(model.context);
        model.is_between = 0;
    }
}

void cache_clean(enum cache_cpu cpu, const volatile void *at, size_t bytes)
{
    size_t i;

    before_access(cpu, 4);
    for (i = first_line(at); i < end_line(at, bytes); i++) {
        write_back(cpu, i);
    }
}

void cache_invalidate(enum cache_cpu cpu, const volatile void *at, size_t bytes)
{
    size_t i;

    before_access(cpu, 4);
    for (i = first_line(at); i < end_line(at, bytes); i++) {
        model.cpus[cpu].lines[i].is_valid = 0;
    }
}

uint32_t cache_load(enum cache_cpu cpu, const volatile uint32_t *word, int is_acquire)
{
    size_t offset = offset_of(word);
    uint32_t value;

    /* Plain loads are few, and what comes between them is what an ordering is for. */
    before_access(cpu, is_acquire ? 8 : 2);
    if (model.kind == CACHE_COHERENT) {
        return coherent_load(cpu, offset, is_acquire);
    }
    memcpy(&value, fetch(cpu, offset / model.line_bytes)->bytes + offset % model.line_bytes, 4);
    return value;
}

uint32_t cache_peek(enum cache_cpu cpu, const volatile uint32_t *word)
{
    size_t offset = offset_of(word);
    const struct word *history = &model.words[offset / 4];
    const struct line *line = &model.cpus[cpu].lines[offset / model.line_bytes];
    const uint8_t *at = model.memory + offset;
    uint32_t value;

    if (model.kind == CACHE_COHERENT) {
        return history->count == 0 ? 0 : history->messages[(history->count - 1) % KEPT].value;
    }
    if (line->is_valid) {
        at = line->bytes + offset % model.line_bytes;
    }
    memcpy(&value, at, sizeof value);
    return value;
}

void cache_store(enum cache_cpu cpu, volatile uint32_t *word, uint32_t value, int is_release)
{
    size_t offset = offset_of(word);
    struct line *line;

    before_access(cpu, 8);
    if (model.kind == CACHE_COHERENT) {
        coherent_store(cpu, offset, value, is_release);
        return;
    }
    line = fetch(cpu, offset / model.line_bytes);
    memcpy(line->bytes + offset % model.line_bytes, &value, 4);
    line->is_dirty = 1;
}
