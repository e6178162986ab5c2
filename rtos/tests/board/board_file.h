/*
 * Reads what the test needs out of a board.toml: only the forms those files use, not TOML in
 * general.
 */
#ifndef BOARD_FILE_H
#define BOARD_FILE_H

#include <stdint.h>

enum {
    ARGS_MAX = 64,
    FILES_MAX = 4,
    CLASSES_MAX = 4,
    TEXT_MAX = 256
};

struct shared_file {
    char name[TEXT_MAX];
    uint32_t bytes;
};

struct placed {
    char file[TEXT_MAX];
    uint32_t offset;
    uint32_t bytes;
};

struct board_file {
    char command[TEXT_MAX];
    char args[ARGS_MAX][TEXT_MAX];
    int arg_count;
    char doorbell[TEXT_MAX];
    struct shared_file file[FILES_MAX];
    int file_count;
    struct placed region;
    struct placed link;
    uint32_t line_bytes;
    uint32_t endpoints;
    /* What the file does not say is 8. */
    uint32_t ports;
    uint32_t capacity;
    uint32_t slot_bytes[CLASSES_MAX];
    uint32_t slot_count[CLASSES_MAX];
    int class_count;
};

/* 1, or 0 with a message. */
int board_file_read(struct board_file *board, const char *path);

#endif
