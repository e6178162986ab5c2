/* Reads the golden vectors of spec/vectors/ (format: README.md there). */
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>
#include <stdint.h>

enum {
    VECTOR_LINES_MAX = 512,
    VECTOR_TEXT_MAX = 256
};

struct vector_line {
    char group[VECTOR_TEXT_MAX];
    char key[VECTOR_TEXT_MAX];
    char value[VECTOR_TEXT_MAX];
};

struct vectors {
    struct vector_line line[VECTOR_LINES_MAX];
    size_t count;
};

extern const char *vectors_folder;

/* 1, or 0 with a message if the file cannot be read or a line has no meaning. */
int vectors_read(struct vectors *vectors, const char *file);
/* The value of a key, or NULL. */
const char *vectors_text(const struct vectors *vectors, const char *group, const char *key);
/* A number; a missing one is a failed check and 0. */
uint32_t vectors_number(const struct vectors *vectors, const char *group, const char *key);
/* Hex digits to bytes; returns how many. */
size_t vectors_bytes(const char *text, uint8_t *bytes, size_t room);

#endif
