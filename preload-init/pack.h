/*
 * The reader of packs, spec/pack.md: which files, and which pages of them, are to be read ahead.
 *
 * Called by load.c, and by the tests and the fuzzer, with bytes that may say anything. Opening
 * checks all of them; after that every number handed out lies inside the pack and every path ends
 * with a zero. The bytes stay the caller's, and must not change meanwhile. Never allocates, never
 * calls the kernel, never reads outside the bytes it was handed.
 */
#ifndef HYTHE_PACK_H
#define HYTHE_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Whatever pages the machine has. */
#define HYTHE_PACK_PAGE_BYTES 4096u
/* The largest pack: header, 65,536 files, 1,048,576 extents, 16 MiB of paths. */
#define HYTHE_PACK_MAX_BYTES (40u + 65536u * 32u + 1048576u * 12u + 16777216u)

/* Why a pack is refused. Zero: it is not. */
enum hythe_pack_fault {
    HYTHE_PACK_GOOD,
    HYTHE_PACK_SHORT,
    HYTHE_PACK_MAGIC,
    HYTHE_PACK_VERSION,
    HYTHE_PACK_SIZE,
    HYTHE_PACK_CHECKSUM,
    HYTHE_PACK_PAGE,
    HYTHE_PACK_FILES,
    HYTHE_PACK_EXTENTS,
    HYTHE_PACK_PATHS,
    HYTHE_PACK_SUM,
    HYTHE_PACK_PATH_EMPTY,
    HYTHE_PACK_PATH_LONG,
    HYTHE_PACK_PATH_ELSEWHERE,
    HYTHE_PACK_PATH_RELATIVE,
    HYTHE_PACK_PATH_ZERO,
    HYTHE_PACK_PATH_UNENDED,
    HYTHE_PACK_PATH_LEFT_OVER,
    HYTHE_PACK_EXTENT_FILE,
    HYTHE_PACK_EXTENT_EMPTY,
    HYTHE_PACK_EXTENT_END,
    HYTHE_PACK_FAULTS
};

/* A pack that was found good. Filled by hythe_pack_open() alone. */
struct hythe_pack {
    const uint8_t *bytes;
    uint32_t files;
    uint32_t extents;
    uint32_t paths_at; /* where the paths begin */
    int inodes_count;  /* whether inode numbers are to be compared */
};

struct hythe_pack_file {
    uint64_t size;    /* bytes */
    int64_t mtime_ns; /* since 1970-01-01 UTC */
    uint64_t inode;
    const char *path;    /* absolute, a zero behind it */
    uint32_t path_bytes; /* without the zero */
};

struct hythe_pack_extent {
    uint32_t file;
    uint32_t first_page;
    uint32_t pages; /* at least 1, all inside the file's size */
};

/* Checks all of a pack. HYTHE_PACK_GOOD, or why it is refused; then `pack` is not to be used. */
enum hythe_pack_fault hythe_pack_open(struct hythe_pack *pack, const void *bytes, size_t size);
/* What a fault is called, as in spec/vectors/pack.txt. */
const char *hythe_pack_fault_text(enum hythe_pack_fault fault);
/* The file with this number, which must be below `files`. */
struct hythe_pack_file hythe_pack_file(const struct hythe_pack *pack, uint32_t number);
/* The extent with this number, which must be below `extents`. */
struct hythe_pack_extent hythe_pack_extent(const struct hythe_pack *pack, uint32_t number);

#endif
