/*
 * The files of a pack, opened, checked and kept open while there is room: a pack goes to and fro
 * between its files.
 *
 * Called by replay.c. Each file is checked whenever it is opened, and skipped for good once it was
 * not the one that was recorded. Never keeps more than OPENED_FILES handles, half of what Linux
 * allows a process unless told otherwise.
 */
#ifndef OPENED_H
#define OPENED_H

#include <stdint.h>

#include "pack.h"
#include "reading.h"
#include "report.h"

enum {
    OPENED_FILES = 512
};

struct opened_file {
    long handle; /* negative: none */
    uint32_t number;
    uint64_t device;
};

struct opened {
    const struct hythe_pack *pack;
    long root;
    /* One byte for each file of the pack, zero at first. The caller's. */
    uint8_t *state;
    struct opened_file place[OPENED_FILES];
};

void opened_begin(struct opened *opened, const struct hythe_pack *pack, long root, uint8_t *state);
/*
 * The file with this number, open, or NULL if it is skipped. The first time that it is, `report`
 * counts and names it.
 */
const struct opened_file *opened_get(struct opened *opened, uint32_t number, struct report *report);
/* From now on the file is skipped. */
void opened_give_up(struct opened *opened, uint32_t number, enum report_skip why,
                    struct report *report);
/* Counts the file the first time that something of it was read. */
void opened_count(struct opened *opened, uint32_t number, struct report *report);
void opened_end(struct opened *opened);

#endif
