/*
 * The line to the host: what the programs of the emulated board print on the serial console, one
 * write for one line.
 *
 * Included by the programs beside it; `bench/src/preload/transcript.rs` reads the lines. Buffers
 * nothing, so that the host sees a line when it happened. Never allocates.
 */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE_BYTES = 4096,
    /* Of the largest file here, with room. */
    MOST_PAGES = 65536
};

/* Prints one line, whole. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    char line[256];
    va_list values;
    int length;

    va_start(values, format);
    length = vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    if (length > (int)sizeof(line) - 1) {
        length = sizeof(line) - 1;
    }
    if (length > 0 && write(STDOUT_FILENO, line, (size_t)length) != length) {
        _exit(3);
    }
}

/* For what must not happen: says so, and ends the program; the host ends the machine. */
static inline void give_up(const char *what, const char *which)
{
    say("hythe failed: %s %s: %m\n", what, which);
    _exit(1);
}

static inline long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How many pages of an open file are in memory. */
static inline size_t resident_pages(int file, const char *path)
{
    static unsigned char resident[MOST_PAGES];
    struct stat status;
    size_t pages;
    size_t count = 0;
    void *map;

    if (fstat(file, &status) != 0) {
        give_up("look at", path);
    }
    pages = ((size_t)status.st_size + PAGE_BYTES - 1) / PAGE_BYTES;
    if (pages == 0 || pages > MOST_PAGES) {
        return 0;
    }
    map = mmap(NULL, pages * PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED || mincore(map, pages * PAGE_BYTES, resident) != 0) {
        give_up("map", path);
    }
    for (size_t page = 0; page < pages; page++) {
        count += resident[page] & 1;
    }
    munmap(map, pages * PAGE_BYTES);
    return count;
}

#endif
