/*
 * Getting pages of a file into the page cache, by the fastest way that its file system honours.
 *
 * Called by replay.c, step by step. Where readahead(2) works, pages are asked for and the device
 * loads them while others run; UBIFS and JFFS2 accept it and load nothing, and there the pages are
 * read. Which of the two holds is known by the file system's name or tried out on the first step,
 * and remembered for each file system. Never loads pages that were not asked for, as far as the
 * kernel lets one choose.
 */
#ifndef READING_H
#define READING_H

#include <stddef.h>
#include <stdint.h>

enum {
    /*
     * One readahead() is cut to what the device likes; 128 KiB is less than any does. Also the
     * least that Linux reads around.
     */
    READING_STEP_BYTES = 131072,
    READING_SYSTEMS = 16
};

enum reading_way {
    READING_UNKNOWN,
    READING_QUEUES, /* readahead(2): asked for, not waited for */
    READING_READS   /* read, and with that waited for */
};

/* What is known of file systems. Begins as zeroes. */
struct reading {
    struct {
        uint64_t device;
        enum reading_way way;
    } system[READING_SYSTEMS];
    unsigned systems;
};

/*
 * How the file system with this device number is read; `handle` is a file on it. The pointer holds
 * until the next call.
 */
enum reading_way *reading_way_of(struct reading *reading, uint64_t device, long handle);
/*
 * Loads at most READING_STEP_BYTES. `offset` is a multiple of 4096. Returns the bytes that are
 * there or were asked for, fewer only at the end of the file, or a negative error. Settles *way if
 * it was unknown and can be.
 */
long reading_step(long handle, enum reading_way *way, uint64_t offset, size_t bytes);

#endif
