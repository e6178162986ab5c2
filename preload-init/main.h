/* What the kernel gave the program, and the program. Called by start.c. Never called twice. */
#ifndef MAIN_H
#define MAIN_H

#include <stddef.h>

struct main_given {
    char **arguments; /* ended by NULL, as the environment is */
    char **environment;
    const char *own_path; /* how we were executed; NULL: the kernel does not say */
    size_t page_bytes;    /* 0: the kernel does not say */
};

/* The exit code. */
int main_run(const struct main_given *given);

#endif
