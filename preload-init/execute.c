/* Executing what follows: see execute.h. Never forks. */
#include "execute.h"

#include <stddef.h>

#include "report.h"
#include "system.h"
#include "text.h"

enum {
    PATH_BYTES = 4096
};

static int stat_path(const char *path, struct system_file *file)
{
    long handle = system_open(SYSTEM_CURRENT_DIRECTORY, path);
    long result;

    if (handle < 0) {
        return -1;
    }
    result = system_stat(handle, file);
    system_close(handle);
    return result == 0 ? 0 : -1;
}

static int is_ourselves(const char *path, const char *own_path)
{
    struct system_file there;
    struct system_file own;

    return own_path != NULL && stat_path(path, &there) == 0 && stat_path(own_path, &own) == 0 &&
           there.device == own.device && there.inode == own.inode;
}

static void execute_one(const char *path, const char *own_path, int must_be_there, char **arguments,
                        char **environment)
{
    char *given = arguments[0];
    long error;

    if (is_ourselves(path, own_path)) {
        report_not_executed(path, "it is preload-init itself", 0, 1);
        return;
    }
    /* The pointers on the stack are ours to change; the kernel only reads the text. */
    arguments[0] = (char *)(uintptr_t)path;
    error = system_execute(path, arguments, environment);
    arguments[0] = given;
    if (must_be_there || error != -ERROR_NO_ENTRY) {
        report_not_executed(path, NULL, error, 1);
    }
}

void execute_init(const struct options *options, const char *own_path, char **arguments,
                  char **environment)
{
    static const char *const usual[] = {"/sbin/init", "/etc/init", "/bin/init", "/bin/sh"};
    static char *none[] = {NULL, NULL};
    size_t i;

    /* A program may be started without any argument, not even its name; an init may not. */
    if (arguments[0] == NULL) {
        arguments = none;
    }
    if (options->init != NULL) {
        execute_one(options->init, own_path, 1, arguments, environment);
    }
    for (i = 0; i < sizeof usual / sizeof *usual; i++) {
        execute_one(usual[i], own_path, 0, arguments, environment);
    }
    report_not_executed("/sbin/init",
                        "no init works; add preload_init=PATH to the kernel's command line", 0, 1);
}

static const char *search_path(char **environment)
{
    for (; *environment != NULL; environment++) {
        const char *value = text_after(*environment, "PATH=");

        if (value != NULL) {
            return value;
        }
    }
    return "/sbin:/usr/sbin:/bin:/usr/bin";
}

/*
 * Puts the next directory of a search path and the name together, and moves *search behind it.
 * NULL: too long, or the last one.
 */
static const char *next_candidate(char *path, const char **search, const char *name)
{
    size_t length = 0;

    while (**search != '\0' && **search != ':') {
        if (length + 2 + text_length(name) >= PATH_BYTES) {
            return NULL;
        }
        path[length] = **search;
        length++;
        (*search)++;
    }
    /* An empty part is the current directory. */
    if (length > 0) {
        path[length] = '/';
        length++;
    }
    if (length + text_length(name) >= PATH_BYTES) {
        return NULL;
    }
    while (*name != '\0') {
        path[length] = *name;
        length++;
        name++;
    }
    path[length] = '\0';
    return path;
}

static int has_slash(const char *name)
{
    while (*name != '\0' && *name != '/') {
        name++;
    }
    return *name == '/';
}

void execute_command(char **command, char **environment)
{
    static char path[PATH_BYTES];
    const char *search = search_path(environment);
    long error = -ERROR_NO_ENTRY;
    int more = 1;

    if (has_slash(command[0])) {
        error = system_execute(command[0], command, environment);
        more = 0;
    }
    while (more && next_candidate(path, &search, command[0]) != NULL) {
        long result = system_execute(path, command, environment);

        /* One that is there and does not work is the better reason. */
        if (result != -ERROR_NO_ENTRY && result != -ERROR_NO_DIRECTORY) {
            error = result;
        }
        more = *search == ':';
        search++;
    }
    report_not_executed(command[0], NULL, error, 0);
}
