/*
 * Becoming what was meant to run: the real init, or a command.
 *
 * Called by main.c at its end. Arguments and environment are those that we were given, but for the
 * first argument, which is the path that is executed. Never executes ourselves again: a board would
 * start for ever.
 */
#ifndef EXECUTE_H
#define EXECUTE_H

#include "options.h"

/*
 * Executes `preload_init=`, or else what the kernel would: /sbin/init, /etc/init, /bin/init,
 * /bin/sh. `own_path` is how we were executed, or NULL. Returns only if none could be executed,
 * each named on the console.
 */
void execute_init(const struct options *options, const char *own_path, char **arguments,
                  char **environment);
/*
 * Executes the command, looked for in PATH if its name has no slash. Returns only if that failed,
 * and said so.
 */
void execute_command(char **command, char **environment);

#endif
