/*
 * preload-init: reads ahead what a boot or a program needs, then executes it. See README.md.
 *
 * Entered from start.c, with what the kernel put on the stack. Whatever went wrong before, what was
 * meant to run is executed. Never runs anything beside itself, and never changes what the next
 * program is started with.
 */
#include "main.h"

#include <stddef.h>

#include "execute.h"
#include "options.h"
#include "replay.h"
#include "report.h"
#include "system.h"

enum {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

static int run_as_first_process(const struct main_given *given)
{
    static struct report report;
    struct options options;

    options_from_environment(&options, given->environment);
    replay(&options, &report);
    report_say(&report, &options, 1);
    execute_init(&options, given->own_path, given->arguments, given->environment);
    return EXIT_FAILED;
}

static int run_as_command(const struct main_given *given)
{
    static struct report report;
    struct options options;

    if (options_from_arguments(&options, given->arguments) != 0) {
        report_usage(&options);
        return EXIT_USAGE;
    }
    if (options.wants_help) {
        report_usage(&options);
        return EXIT_GOOD;
    }
    replay(&options, &report);
    report_say(&report, &options, 0);
    if (options.command != NULL) {
        execute_command(options.command, given->environment);
        return EXIT_FAILED;
    }
    return report_is_failure(&report) ? EXIT_FAILED : EXIT_GOOD;
}

int main_run(const struct main_given *given)
{
    if (given->page_bytes != 0) {
        system_set_page_bytes(given->page_bytes);
    }
    return system_process_id() == 1 ? run_as_first_process(given) : run_as_command(given);
}
