/*
 * Text without a C library: comparing, numbers, and lines of bounded length. Called by whoever
 * reads options or says something.
 *
 * A line that is full takes no more and stays whole: what was cut off is missing at its end, and
 * nowhere else. Never allocates, never calls the kernel, never divides by what is not a constant of
 * its own (32-bit machines have no such instruction).
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

enum {
    /* What the kernel takes as one record of its log, less the prefix that it may put in front. */
    TEXT_LINE_BYTES = 900
};

struct text_line {
    size_t length;
    char bytes[TEXT_LINE_BYTES];
};

/* How text_add_path() writes what would break a line apart. */
enum text_kind {
    TEXT_FOR_PEOPLE,  /* control characters and backslashes become \xNN */
    TEXT_FOR_PROGRAMS /* blanks, too */
};

size_t text_length(const char *text);
int text_equal(const char *one, const char *other);
/* What follows `start` in `text`, or NULL if the text does not begin with it. */
const char *text_after(const char *text, const char *start);
/* `value / divisor`, rounded down. The divisor is not 0. */
uint64_t text_divide(uint64_t value, uint32_t divisor);
/*
 * Reads decimal digits, as many as there are; moves *text behind them. -1: there is none, or the
 * number is over 2^64
 * - 1.
 */
int text_read_number(const char **text, uint64_t *number);

void text_add(struct text_line *line, const char *text);
void text_add_number(struct text_line *line, uint64_t number);
/*
 * A path, or another text from outside. Never more than `most` bytes: then three dots stand in
 * front of its end.
 */
void text_add_path(struct text_line *line, const char *path, size_t most, enum text_kind kind);
/* `number` things: "1 page", "2 pages". */
void text_add_count(struct text_line *line, uint64_t number, const char *thing);

#endif
