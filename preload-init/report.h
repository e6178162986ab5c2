/*
 * What became of it, and saying so: one line for people on the console, two in the kernel's log,
 * the second for programs (README.md has its form).
 *
 * Filled by replay.c, said by main.c. Names point into the pack, which must stay until the report
 * is said. Never waits longer than a second for a console that takes nothing.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdint.h>

#include "options.h"
#include "pack.h"

enum report_end {
    REPORT_ALL,    /* every extent of every good file */
    REPORT_BUDGET, /* the budget was used up */
    REPORT_MEMORY, /* free memory ran short */
    REPORT_TIME,   /* it took too long */
    REPORT_OFF,    /* the pack is switched off */
    /* From here on nothing was read, and that is a failure. */
    REPORT_NO_ROOT,
    REPORT_NO_PACK,
    REPORT_UNREADABLE, /* the pack */
    REPORT_REFUSED,
    REPORT_NO_MEMORY, /* for the pack */
    REPORT_ENDS
};

/* Why a file was left out. */
enum report_skip {
    REPORT_CHANGED, /* not the one that was recorded */
    REPORT_MISSING, /* nothing by that name, or a file system that is not mounted */
    REPORT_BROKEN,  /* an error of reading or opening */
    REPORT_SKIPS
};

enum {
    REPORT_NAMES = 3
};

struct report {
    enum report_end end;
    long error;                  /* what the kernel said, for ends that have such a reason */
    enum hythe_pack_fault fault; /* for REPORT_REFUSED */
    uint64_t pack_bytes;         /* for REPORT_NO_MEMORY */
    uint64_t wanted_pages;       /* the sum over the pack */
    uint64_t pages;              /* read or asked for */
    uint64_t queued_pages;       /* those of them that were only asked for */
    uint64_t budget_pages;
    uint32_t files; /* of which at least a page was read */
    struct {
        uint32_t files;
        const char *name[REPORT_NAMES]; /* the first of them */
    } skipped[REPORT_SKIPS];
    uint64_t elapsed_ns;
    uint64_t boot_ns; /* since the machine started, when it was done */
};

void report_skip(struct report *report, enum report_skip why, const char *path);
int report_is_failure(const struct report *report);
/* Says all of it. */
void report_say(const struct report *report, const struct options *options, int is_first_process);
/* Says that the real init or the command was not executed. */
void report_not_executed(const char *path, const char *why, long error, int is_first_process);
/* Says what was not understood, and how the program is used. */
void report_usage(const struct options *options);

#endif
