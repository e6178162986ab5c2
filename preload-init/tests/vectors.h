/*
 * Reads the golden vectors of spec/vectors/ (format: README.md there), group by group. Called by
 * test_pack.c.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>
#include <stdint.h>

enum {
    VECTOR_LINES_MAX = 64,
    VECTOR_TEXT_MAX = 4096
};

struct vector_group {
    char name[128];
    size_t count;
    char key[VECTOR_LINES_MAX][64];
    char value[VECTOR_LINES_MAX][VECTOR_TEXT_MAX];
};

extern const char *vectors_path;
extern const char *vectors_seeds;

/*
 * Calls `each` for every group. The number of groups; a line without a meaning is a failed check.
 */
unsigned vectors_each(void (*each)(const struct vector_group *));
/* The value of a key; a missing one is a failed check and "". */
const char *vector_text(const struct vector_group *group, const char *key);
long long vector_number(const struct vector_group *group, const char *key);
/* The bytes of `hex`; returns how many. */
size_t vector_bytes(const struct vector_group *group, uint8_t *bytes, size_t room);

#endif
