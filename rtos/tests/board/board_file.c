/*
 * Reading board.toml line by line. Called by agent.c. Never guesses: what is missing is an error.
 */
#include "board_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct board_file *board;
    char section[TEXT_MAX];
    int in_args;
};

/* Copies the quoted strings of a line into args. */
static void take_strings(struct reader *reader, const char *text)
{
    const char *open;

    while ((open = strchr(text, '"')) != NULL && reader->board->arg_count < ARGS_MAX) {
        const char *close = strchr(open + 1, '"');
        if (close == NULL || close - open > TEXT_MAX) {
            return;
        }
        snprintf(reader->board->args[reader->board->arg_count++], TEXT_MAX, "%.*s",
                 (int)(close - open - 1), open + 1);
        text = close + 1;
    }
}

static void copy_string(char *target, const char *value)
{
    if (sscanf(value, "\"%255[^\"]\"", target) != 1) {
        target[0] = '\0';
    }
}

static void take_placed(struct placed *placed, const char *key, const char *value)
{
    if (strcmp(key, "file") == 0) {
        copy_string(placed->file, value);
    } else if (strcmp(key, "offset") == 0) {
        placed->offset = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(key, "bytes") == 0) {
        placed->bytes = (uint32_t)strtoul(value, NULL, 0);
    }
}

static void take_link(struct board_file *board, const char *key, const char *value)
{
    uint32_t number = (uint32_t)strtoul(value, NULL, 0);

    take_placed(&board->link, key, value);
    if (strcmp(key, "line_bytes") == 0) {
        board->line_bytes = number;
    } else if (strcmp(key, "endpoints") == 0) {
        board->endpoints = number;
    } else if (strcmp(key, "ports") == 0) {
        board->ports = number;
    } else if (strcmp(key, "capacity") == 0) {
        board->capacity = number;
    }
}

static void take_key(struct reader *reader, const char *key, const char *value)
{
    struct board_file *board = reader->board;

    if (strcmp(reader->section, "[run]") == 0 && strcmp(key, "command") == 0) {
        copy_string(board->command, value);
    } else if (strcmp(reader->section, "[run]") == 0 && strcmp(key, "doorbell") == 0) {
        copy_string(board->doorbell, value);
    } else if (strcmp(reader->section, "[run]") == 0 && strcmp(key, "args") == 0) {
        take_strings(reader, value);
        reader->in_args = strchr(value, ']') == NULL;
    } else if (strcmp(reader->section, "[[run.file]]") == 0 && strcmp(key, "name") == 0) {
        copy_string(board->file[board->file_count - 1].name, value);
    } else if (strcmp(reader->section, "[[run.file]]") == 0 && strcmp(key, "bytes") == 0) {
        board->file[board->file_count - 1].bytes = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(reader->section, "[run.region]") == 0) {
        take_placed(&board->region, key, value);
    } else if (strcmp(reader->section, "[run.link]") == 0) {
        take_link(board, key, value);
    } else if (strcmp(reader->section, "[[run.class]]") == 0 && strcmp(key, "slot_bytes") == 0) {
        board->slot_bytes[board->class_count - 1] = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(reader->section, "[[run.class]]") == 0 && strcmp(key, "count") == 0) {
        board->slot_count[board->class_count - 1] = (uint32_t)strtoul(value, NULL, 0);
    }
}

static void begin_section(struct reader *reader, const char *line)
{
    struct board_file *board = reader->board;

    sscanf(line, "%255s", reader->section);
    if (strcmp(reader->section, "[[run.file]]") == 0 && board->file_count < FILES_MAX) {
        board->file_count++;
    } else if (strcmp(reader->section, "[[run.class]]") == 0 && board->class_count < CLASSES_MAX) {
        board->class_count++;
    }
}

static void take_line(struct reader *reader, const char *line)
{
    char key[TEXT_MAX];
    const char *equals = strchr(line, '=');

    if (reader->in_args) {
        take_strings(reader, line);
        reader->in_args = line[0] != ']';
    } else if (line[0] == '[') {
        begin_section(reader, line);
    } else if (line[0] != '#' && equals != NULL && sscanf(line, "%255s", key) == 1) {
        take_key(reader, key, equals + 1 + strspn(equals + 1, " "));
    }
}

int board_file_read(struct board_file *board, const char *path)
{
    struct reader reader = {board, "", 0};
    char line[1024];
    FILE *file = fopen(path, "r");

    memset(board, 0, sizeof *board);
    board->ports = 8;
    if (file == NULL) {
        perror(path);
        return 0;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        take_line(&reader, line);
    }
    fclose(file);
    if (board->command[0] == '\0' || board->arg_count == 0 || board->file_count == 0 ||
        board->class_count == 0 || board->link.bytes == 0 || board->region.bytes == 0 ||
        board->capacity == 0) {
        fprintf(stderr, "%s: something is missing in [run]\n", path);
        return 0;
    }
    return 1;
}
