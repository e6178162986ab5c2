/*
 * What preload-init was asked to do: as process 1 by the kernel's command line, which arrives as
 * environment, else by arguments.
 *
 * Called by main.c once. The texts stay where they were. Never judges whether a path exists, never
 * changes arguments or environment.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdint.h>

#define OPTIONS_NO_LIMIT UINT64_MAX

struct options {
    const char *root; /* the directory below which all paths are */
    const char *pack; /* below `root` */
    const char *log;  /* where the line for programs goes; empty: nowhere */
    const char *init; /* as process 1: what to execute afterwards; NULL: what the kernel would */
    char **command;   /* else: what to execute afterwards, with its arguments; NULL: nothing */
    uint64_t budget_bytes;   /* or OPTIONS_NO_LIMIT */
    uint32_t budget_percent; /* of the memory that is free */
    uint32_t seconds;        /* stop after that time */
    int is_quiet;            /* say nothing on the console when all went well */
    int wants_help;
    /* The first thing that was not understood, and its value, or NULL. */
    const char *odd_name;
    const char *odd_value;
};

/*
 * Reads `preload_…=` from the environment. What is not understood is noted and stays as it is by
 * default: a machine must boot.
 */
void options_from_environment(struct options *options, char **environment);
/* Reads the arguments. 0, or -1 with what was not understood noted. */
int options_from_arguments(struct options *options, char **arguments);

#endif
