/*
 * Getting the pack into memory: opened below the root, read, checked.
 *
 * Called by replay.c. The memory is never given back: execution or the end of the program does
 * that.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdint.h>

#include "options.h"
#include "pack.h"
#include "report.h"

struct load {
    struct hythe_pack pack;
    uint8_t *file_state; /* a zero for each file */
};

/* 0, or -1 with the reason in the report. */
int load_pack(struct load *load, long root, const struct options *options, struct report *report);

#endif
