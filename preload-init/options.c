/* Options: see options.h. Never prints; main.c and report.c do. */
#include "options.h"

#include <stddef.h>

#include "text.h"

enum {
    DEFAULT_PERCENT = 50,
    /*
     * Boards have watchdogs that bite after half a minute or more; a pack that takes longer is not
     * helping.
     */
    DEFAULT_SECONDS = 20,
    MOST_SECONDS = 86400
};

static void set_defaults(struct options *options)
{
    options->root = "/";
    options->pack = "/etc/hythe/boot.pack";
    options->log = "/dev/kmsg";
    options->init = NULL;
    options->command = NULL;
    options->budget_bytes = OPTIONS_NO_LIMIT;
    options->budget_percent = DEFAULT_PERCENT;
    options->seconds = DEFAULT_SECONDS;
    options->is_quiet = 0;
    options->wants_help = 0;
    options->odd_name = NULL;
    options->odd_value = NULL;
}

/* What K, M and G stand for, as a shift; 0 for none. Moves *text behind the letter. */
static unsigned read_unit(const char **text)
{
    unsigned shift = 0;

    switch (**text) {
    case 'K':
    case 'k':
        shift = 10;
        break;
    case 'M':
    case 'm':
        shift = 20;
        break;
    case 'G':
    case 'g':
        shift = 30;
        break;
    default:
        return 0;
    }
    (*text)++;
    return shift;
}

/* One term of a budget: `8M`, `4096`, `30%`. */
static int read_term(const char **text, uint64_t *bytes, uint32_t *percent)
{
    uint64_t number;
    unsigned shift;

    if (text_read_number(text, &number) != 0) {
        return -1;
    }
    if (**text == '%') {
        (*text)++;
        *percent = (uint32_t)number;
        return number <= 100 ? 0 : -1;
    }
    for (shift = read_unit(text); shift > 0; shift--) {
        if (number > UINT64_MAX / 2) {
            return -1;
        }
        number *= 2;
    }
    *bytes = number;
    return 0;
}

static int set_budget(struct options *options, const char *value)
{
    uint64_t bytes = options->budget_bytes;
    uint32_t percent = options->budget_percent;

    if (read_term(&value, &bytes, &percent) != 0) {
        return -1;
    }
    if (*value == ',') {
        value++;
        if (read_term(&value, &bytes, &percent) != 0) {
            return -1;
        }
    }
    if (*value != '\0') {
        return -1;
    }
    options->budget_bytes = bytes;
    options->budget_percent = percent;
    return 0;
}

static int set_seconds(struct options *options, const char *value)
{
    uint64_t number;

    if (text_read_number(&value, &number) != 0 || *value != '\0' || number > MOST_SECONDS) {
        return -1;
    }
    options->seconds = (uint32_t)number;
    return 0;
}

static int set_path(const char **path, const char *value)
{
    if (*value == '\0') {
        return -1;
    }
    *path = value;
    return 0;
}

/* What both ways of asking have in common. 1: there is no such option. */
static int set(struct options *options, const char *name, const char *value)
{
    if (text_equal(name, "pack")) {
        return set_path(&options->pack, value);
    }
    if (text_equal(name, "budget")) {
        return set_budget(options, value);
    }
    if (text_equal(name, "seconds")) {
        return set_seconds(options, value);
    }
    if (text_equal(name, "log")) {
        options->log = value;
        return 0;
    }
    return 1;
}

static void note(struct options *options, const char *name, const char *value)
{
    if (options->odd_name == NULL) {
        options->odd_name = name;
        options->odd_value = value;
    }
}

void options_from_environment(struct options *options, char **environment)
{
    static const char *const names[] = {"pack", "budget", "seconds", "log"};
    size_t i;

    set_defaults(options);
    for (; *environment != NULL; environment++) {
        const char *setting = text_after(*environment, "preload_");
        const char *value;

        if (setting == NULL) {
            continue;
        }
        for (i = 0; i < sizeof names / sizeof *names; i++) {
            value = text_after(setting, names[i]);
            if (value != NULL && *value == '=' && set(options, names[i], value + 1) != 0) {
                note(options, names[i], value + 1);
            }
        }
        value = text_after(setting, "init=");
        if (value != NULL && *value != '\0') {
            options->init = value;
        }
        value = text_after(setting, "quiet=");
        if (value != NULL) {
            options->is_quiet = *value != '\0' && !text_equal(value, "0");
        }
    }
}

static int set_argument(struct options *options, const char *name, const char *value)
{
    int result = set(options, name, value);

    if (result == 1 && text_equal(name, "root")) {
        result = set_path(&options->root, value);
    }
    if (result != 0) {
        note(options, name, result == 1 ? NULL : value);
    }
    return result == 0 ? 0 : -1;
}

int options_from_arguments(struct options *options, char **arguments)
{
    set_defaults(options);
    /* The first is our own name, if there is any. */
    arguments += *arguments != NULL;
    for (; *arguments != NULL; arguments++) {
        const char *name = text_after(*arguments, "--");

        if (**arguments != '-' || (name != NULL && *name == '\0')) {
            arguments += name != NULL;
            options->command = *arguments != NULL ? arguments : NULL;
            return 0;
        }
        if (name == NULL) {
            note(options, *arguments + 1, NULL);
            return -1;
        }
        if (text_equal(name, "help")) {
            options->wants_help = 1;
        } else if (text_equal(name, "quiet")) {
            options->is_quiet = 1;
        } else if (arguments[1] == NULL) {
            note(options, name, NULL);
            return -1;
        } else {
            arguments++;
            if (set_argument(options, name, *arguments) != 0) {
                return -1;
            }
        }
    }
    return 0;
}
