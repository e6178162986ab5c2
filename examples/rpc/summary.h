/* The method that both sides serve: one file of C, compiled for Linux and for the core. */
#ifndef SUMMARY_H
#define SUMMARY_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* Takes a telemetry.Window, returns its telemetry.Summary. */
    METHOD_SUMMARIZE = 1,
    /* Of the core: has Linux summarize a window of its own, and returns what came. */
    METHOD_ASK_LINUX = 2
};

/* Errors of both methods. */
enum {
    ERROR_NO_WINDOW = 1,
    ERROR_EMPTY = 2,
    ERROR_NO_REPLY = 3
};

/*
 * 0 with the size of the result in `bytes`, also if that is more than `capacity`: then nothing is
 * written. Or one of the errors. The argument is read once, before anything is written: both may
 * stand at the same place.
 */
int summarize(const uint8_t *argument, size_t argument_bytes, uint8_t *result, size_t capacity,
              size_t *bytes);

#endif
