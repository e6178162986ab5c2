/* The conditions as a text (spec/histogram.md, "Conditions"). */
#ifndef REPORT_H
#define REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "sample.h"

/*
 * A text that grows in memory of the caller; what does not fit makes it useless, which text_end()
 * tells.
 */
struct text {
    char *at;
    size_t room;
    size_t length;
};

void text_begin(struct text *text, char *memory, size_t room);
void text_add(struct text *text, const char *key, const char *value);
void text_add_number(struct text *text, const char *key, uint32_t number);
/* Adds the checksum and returns the bytes of the record; 0: it did not fit. */
size_t text_end(struct text *text);

/* What the figures of this image depend on. */
void report_conditions(struct text *text, const struct sampler *samplers, unsigned count);

#endif
