/*
 * Words shared with Linux, as the rest of the library sees them: read and written whole, with cache
 * maintenance where the port has it. Offsets are those of spec/link.md.
 *
 * A word of the Linux section is read here once and then kept in a private copy; nothing else
 * dereferences shared memory.
 */
#ifndef HYTHE_SHARED_H
#define HYTHE_SHARED_H

#include "hythe_atomic.h"
#include "hythe_port.h"
#include "hythe_rt_config.h"

/* Strict C99 has no _Static_assert. */
#define HYTHE_ASSERT_AT_COMPILE(name, condition)                                                   \
    typedef char hythe_assert_##name[(condition) ? 1 : -1]

#define HYTHE_LINUX_MAGIC 0x4C4C5948u
#define HYTHE_CORE_MAGIC 0x434C5948u
#define HYTHE_VERSION 2u
#define HYTHE_NAME_BYTES 32u
#define HYTHE_RECORD_BYTES 64u
#define HYTHE_ENTRY_BYTES 32u
#define HYTHE_LINE_MIN 64u
#define HYTHE_LINE_MAX 1024u

/* The smallest link whose header lines can be read safely: two sections of three lines. */
#define HYTHE_LINK_BYTES_MIN (6u * HYTHE_LINE_MIN)

/* Offsets in the Linux header line. */
enum {
    HYTHE_LINUX_AT_MAGIC = 0,
    HYTHE_LINUX_AT_VERSION = 4,
    HYTHE_LINUX_AT_LINE_BYTES = 8,
    HYTHE_LINUX_AT_SECTION_BYTES = 12,
    HYTHE_LINUX_AT_ENDPOINTS = 16,
    HYTHE_LINUX_AT_CAPACITY = 20,
    HYTHE_LINUX_AT_REGION = 24,
    HYTHE_LINUX_AT_REGION_BYTES = 28,
    HYTHE_LINUX_AT_CLASSES = 32,
    HYTHE_LINUX_AT_HEADROOM = 36,
    HYTHE_LINUX_AT_SESSION = 40,
    HYTHE_LINUX_AT_PORTS = 44
};

/* Offsets in the core header line. */
enum {
    HYTHE_CORE_AT_MAGIC = 0,
    HYTHE_CORE_AT_VERSION = 4,
    HYTHE_CORE_AT_SESSION = 8,
    HYTHE_CORE_AT_STATE = 12,
    HYTHE_CORE_AT_REASON = 16,
    HYTHE_CORE_AT_ECHO = 20,
    HYTHE_CORE_AT_ENDPOINTS = 24,
    HYTHE_CORE_AT_LINE_BYTES = 28,
    HYTHE_CORE_AT_NAME = 32
};

/* Offsets in a bell line, an endpoint record and a flow line. */
enum {
    HYTHE_BELL_AT_COUNT = 0,
    /* The core's line only, and Linux's only. */
    HYTHE_BELL_AT_WANTED = 4,
    HYTHE_BELL_AT_CHANGES = 8,
    HYTHE_RECORD_AT_NAME = 0,
    HYTHE_RECORD_AT_DIRECTION = 32,
    HYTHE_RECORD_AT_MAX_BYTES = 36,
    HYTHE_RECORD_AT_TYPE = 40,
    HYTHE_RECORD_AT_KIND = 44,
    HYTHE_RECORD_AT_VIOLATIONS = 48,
    HYTHE_RECORD_AT_FULL = 52,
    HYTHE_RECORD_AT_NO_SLOT = 56,
    HYTHE_RECORD_AT_DROPPED = 60,
    HYTHE_FLOW_AT_SESSION = 0,
    HYTHE_FLOW_AT_START = 4,
    HYTHE_FLOW_AT_TAIL = 8,
    HYTHE_FLOW_AT_HEAD = 12,
    /* Linux's lines only, and ours only. */
    HYTHE_FLOW_AT_WINDOW = 16,
    HYTHE_FLOW_AT_DROPPED = 16,
    HYTHE_FLOW_AT_RAISED_LOW = 20,
    HYTHE_FLOW_AT_RAISED_HIGH = 24,
    HYTHE_FLOW_AT_SEEN_LOW = 28,
    HYTHE_FLOW_AT_SEEN_HIGH = 32,
    /* Linux's lines only. */
    HYTHE_FLOW_AT_WANTED = 36
};

enum hythe_link_state {
    HYTHE_STATE_DOWN = 0,
    HYTHE_STATE_UP = 1,
    HYTHE_STATE_REFUSED = 2
};

enum hythe_link_reason {
    HYTHE_REASON_NONE = 0,
    HYTHE_REASON_VERSION = 1,
    HYTHE_REASON_GEOMETRY = 2,
    HYTHE_REASON_ENDPOINTS = 3,
    HYTHE_REASON_PORTS = 4
};

/*
 * The word `offset` bytes into a section. Sections are aligned to lines and offsets are multiples
 * of 4.
 */
static inline volatile uint32_t *hythe_word(volatile uint8_t *section, uint32_t offset)
{
    return (volatile uint32_t *)(volatile void *)(section + offset);
}

static inline const volatile uint32_t *hythe_const_word(const volatile uint8_t *section,
                                                        uint32_t offset)
{
    return (const volatile uint32_t *)(const volatile void *)(section + offset);
}

static inline void hythe_clean(const struct hythe_port *port, const volatile void *at, size_t bytes)
{
    if (HYTHE_CACHE_HOOKS && port->clean != NULL) {
        port->clean(port->context, at, bytes);
    }
}

static inline void hythe_invalidate(const struct hythe_port *port, const volatile void *at,
                                    size_t bytes)
{
    if (HYTHE_CACHE_HOOKS && port->invalidate != NULL) {
        port->invalidate(port->context, at, bytes);
    }
}

/* A word that Linux writes. Acquire: what Linux wrote before it is visible after. */
static inline uint32_t hythe_read(const struct hythe_port *port, const volatile uint32_t *word)
{
    hythe_invalidate(port, word, sizeof *word);
    return hythe_load_acquire(word);
}

/* A word that we write. Release: what we wrote before it is visible to a Linux that sees it. */
static inline void hythe_write(const struct hythe_port *port, volatile uint32_t *word,
                               uint32_t value)
{
    hythe_store_release(word, value);
    hythe_clean(port, word, sizeof *word);
}

#endif
