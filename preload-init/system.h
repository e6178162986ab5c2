/*
 * The system calls that preload-init makes, without a C library: each returns what the kernel
 * returns, a negative error number for failure. Called by everything that acts.
 *
 * Handles are opened so that they close on execution. Kernels without statx(), openat2() or ppoll()
 * are served by older calls. Never changes a signal's handler, the working directory, a mount, or
 * anything else that whoever is executed next would see.
 */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/* Error numbers that mean something to us; the same on all machines that we know. */
enum {
    ERROR_NOT_PERMITTED = 1,
    ERROR_NO_ENTRY = 2,
    ERROR_INTERRUPTED = 4,
    ERROR_IO = 5,
    ERROR_BAD_HANDLE = 9,
    ERROR_TRY_AGAIN = 11,
    ERROR_NO_MEMORY = 12,
    ERROR_NO_ACCESS = 13,
    ERROR_NO_DIRECTORY = 20,
    ERROR_IS_DIRECTORY = 21,
    ERROR_INVALID = 22,
    ERROR_TABLE_FULL = 23,
    ERROR_TOO_MANY_OPEN = 24,
    ERROR_NO_CALL = 38,
    ERROR_LOOP = 40
};

enum {
    SYSTEM_ERRORS_FROM =
        -4095, /* what an address-valued call returns for failure is at least this */
    SYSTEM_CURRENT_DIRECTORY = -100
};

/* What is told of a file. */
struct system_file {
    uint64_t size;
    int64_t mtime_ns;       /* a time that does not fit is INT64_MIN: no pack has it */
    uint32_t mtime_part_ns; /* of it, what is less than a second */
    uint64_t inode;
    uint64_t device; /* equal for files of one file system */
    int is_regular;
};

struct system_memory {
    uint64_t total; /* bytes of memory */
    uint64_t free;  /* bytes that nothing uses, or only buffers of block devices */
};

enum system_clock {
    SYSTEM_CLOCK_MONOTONIC = 1,
    SYSTEM_CLOCK_BOOT = 7
};

/*
 * Opens for reading what `path` names below the directory `root`, which counts as / for symbolic
 * links as far as the kernel can do that. Neither waits for a FIFO nor takes a terminal.
 */
long system_open(long root, const char *path);
/* Opens a directory for system_open(). */
long system_open_directory(const char *path);
/* Opens for writing at the end, without creating; never waits. */
long system_open_log(const char *path);
/* Whether `path` below `root` names anything at all. */
int system_exists(long root, const char *path);
void system_close(long handle);
long system_stat(long handle, struct system_file *file);
/* The magic number of the file system. */
long system_file_system(long handle, uint32_t *magic);
long system_pread(long handle, void *to, size_t bytes, uint64_t offset);
/* Repeats what a signal interrupted, a bounded number of times. */
long system_readahead(long handle, uint64_t offset, size_t bytes);
/* From now on, reading loads what was asked for and nothing around it. */
void system_read_exactly(long handle);
long system_write(long handle, const void *from, size_t bytes);
/* Whether `handle` takes bytes within that time. */
int system_wait_writable(long handle, uint32_t milliseconds);
/* Memory of our own, zeroes. NULL if there is none. */
void *system_allocate(size_t bytes);
void system_free(void *memory, size_t bytes);
/*
 * 1: this page of the file is in the page cache. 0: it is not. Negative: not known. `offset` is a
 * multiple of 4096.
 */
int system_is_resident(long handle, uint64_t offset);
/*
 * The size of this machine's pages, for system_is_resident() and the next: told once at the start.
 */
void system_set_page_bytes(size_t bytes);
/* 1: these two bytes of a file come into memory together. 0: they do not. */
int system_is_same_page(uint64_t one, uint64_t other);
long system_memory(struct system_memory *memory);
/* Nanoseconds. */
uint64_t system_time(enum system_clock clock);
void system_sleep_ms(uint32_t milliseconds);
long system_process_id(void);
/* Returns only for failure, with everything as it was. */
long system_execute(const char *path, char **arguments, char **environment);
void system_exit(int code) __attribute__((noreturn));

#endif
