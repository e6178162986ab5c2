/*
 * The report: see report.h. Never says more than a line at a time, so that a slow console costs a
 * bounded time.
 */
#include "report.h"

#include <stddef.h>

#include "system.h"
#include "text.h"

enum {
    OUTPUT = 1,
    ERRORS = 2,
    CONSOLE_TIMEOUT_MS = 1000,
    /* A console may take a line in pieces. */
    MOST_PIECES = 16,
    PACK_NAME_MOST = 200,
    FILE_NAME_MOST = 60,
    NS_PER_MS = 1000000
};

static const char own_name[] = "preload-init: ";

void report_skip(struct report *report, enum report_skip why, const char *path)
{
    uint32_t before = report->skipped[why].files;

    if (before < REPORT_NAMES) {
        report->skipped[why].name[before] = path;
    }
    report->skipped[why].files = before + 1;
}

int report_is_failure(const struct report *report)
{
    return report->end >= REPORT_NO_ROOT;
}

/* 0 if all of it was taken. */
static int write_all(long handle, const char *bytes, size_t count)
{
    int pieces;

    for (pieces = 0; pieces < MOST_PIECES && count > 0; pieces++) {
        long taken;

        if (!system_wait_writable(handle, CONSOLE_TIMEOUT_MS)) {
            return -1;
        }
        taken = system_write(handle, bytes, count);
        if (taken == -ERROR_INTERRUPTED || taken == -ERROR_TRY_AGAIN) {
            continue;
        }
        if (taken < 0) {
            return -1;
        }
        bytes += taken;
        count -= (size_t)taken;
    }
    return count == 0 ? 0 : -1;
}

static void end_line(struct text_line *line)
{
    /* In place of the last byte if the line is full. */
    if (line->length == TEXT_LINE_BYTES) {
        line->length--;
    }
    text_add(line, "\n");
}

/*
 * To whoever looks at us: process 1 was given the console as its standard error, unless the kernel
 * could not open it then.
 */
static void say(struct text_line *line, int is_first_process)
{
    long console;

    end_line(line);
    if (write_all(ERRORS, line->bytes, line->length) == 0 || !is_first_process) {
        return;
    }
    console = system_open_log("/dev/console");
    if (console >= 0) {
        (void)write_all(console, line->bytes, line->length);
        system_close(console);
    }
}

static void add_error(struct text_line *line, long error)
{
    static const struct {
        long error;
        const char *text;
    } known[] = {
        {ERROR_NO_ENTRY, "there is none"},
        {ERROR_NO_DIRECTORY, "a part of its path is no directory"},
        {ERROR_NO_ACCESS, "no permission"},
        {ERROR_IO, "the storage failed"},
        {ERROR_IS_DIRECTORY, "a directory"},
        {ERROR_INVALID, "no regular file"},
        {ERROR_LOOP, "too many symbolic links"},
        {ERROR_NO_MEMORY, "no memory"},
    };
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].error == -error) {
            text_add(line, known[i].text);
            text_add(line, " ");
        }
    }
    text_add(line, "(error ");
    text_add_number(line, (uint64_t)-error);
    text_add(line, ")");
}

static void add_why_nothing(struct text_line *line, const struct report *report,
                            const struct options *options)
{
    const char *subject = report->end == REPORT_NO_ROOT ? options->root : options->pack;

    text_add(line, "nothing read ahead: ");
    if (report->end == REPORT_NO_MEMORY) {
        text_add(line, "no memory for the ");
        text_add_count(line, report->pack_bytes, "byte");
        text_add(line, " of ");
    }
    text_add_path(line, subject, PACK_NAME_MOST, TEXT_FOR_PEOPLE);
    switch (report->end) {
    case REPORT_OFF:
        text_add(line, " is switched off by the file ");
        text_add_path(line, subject, PACK_NAME_MOST, TEXT_FOR_PEOPLE);
        text_add(line, ".off; remove that to switch it on");
        break;
    case REPORT_REFUSED:
        text_add(line, " is no good pack: ");
        text_add(line, hythe_pack_fault_text(report->fault));
        text_add(line, "; record it anew");
        break;
    case REPORT_NO_MEMORY:
        break;
    default:
        text_add(line,
                 report->end == REPORT_UNREADABLE ? " cannot be read: " : " cannot be opened: ");
        add_error(line, report->error);
        break;
    }
}

static void add_what_was_read(struct text_line *line, const struct report *report,
                              const struct options *options)
{
    if (report->pages < report->wanted_pages) {
        text_add_number(line, report->pages);
        text_add(line, " of ");
    }
    text_add_count(line, report->wanted_pages, "page");
    text_add(line, " of ");
    text_add_count(line, report->files, "file");
    text_add(line, report->queued_pages > 0 ? " asked for in " : " in ");
    text_add_number(line, text_divide(report->elapsed_ns, NS_PER_MS));
    text_add(line, " ms");
    if (report->end == REPORT_BUDGET) {
        text_add(line, "; the budget of ");
        text_add_number(line, report->budget_pages * 4);
        text_add(line, " KiB is used up");
    } else if (report->end == REPORT_MEMORY) {
        text_add(line, "; stopped: free memory runs short");
    } else if (report->end == REPORT_TIME) {
        text_add(line, "; stopped after ");
        text_add_number(line, options->seconds);
        text_add(line, " s");
    }
}

static void add_skipped(struct text_line *line, const struct report *report)
{
    static const char *const one[REPORT_SKIPS] = {
        " changed since: ", " is not there: ", " cannot be read: "};
    static const char *const many[REPORT_SKIPS] = {
        " changed since: ", " are not there: ", " cannot be read: "};
    uint32_t why;
    uint32_t i;

    for (why = 0; why < REPORT_SKIPS; why++) {
        uint32_t files = report->skipped[why].files;

        if (files == 0) {
            continue;
        }
        text_add(line, "; ");
        text_add_count(line, files, "file");
        text_add(line, files == 1 ? one[why] : many[why]);
        for (i = 0; i < files && i < REPORT_NAMES; i++) {
            text_add(line, i > 0 ? ", " : "");
            text_add_path(line, report->skipped[why].name[i], FILE_NAME_MOST, TEXT_FOR_PEOPLE);
        }
        text_add(line, files > REPORT_NAMES ? ", ..." : "");
    }
}

static void add_for_people(struct text_line *line, const struct report *report,
                           const struct options *options)
{
    text_add(line, own_name);
    if (report_is_failure(report) || report->end == REPORT_OFF) {
        add_why_nothing(line, report, options);
    } else {
        add_what_was_read(line, report, options);
        add_skipped(line, report);
    }
    if (options->odd_name != NULL) {
        text_add(line, "; preload_");
        text_add(line, options->odd_name);
        text_add(line, "=");
        text_add_path(line, options->odd_value, FILE_NAME_MOST, TEXT_FOR_PEOPLE);
        text_add(line, " is not understood and does not count");
    }
}

static void add_pair(struct text_line *line, const char *key, uint64_t value)
{
    text_add(line, key);
    text_add_number(line, value);
}

static void add_for_programs(struct text_line *line, const struct report *report,
                             const struct options *options)
{
    static const char *const ends[REPORT_ENDS] = {
        "all",     "budget",  "memory",     "time",    "off",
        "no-root", "no-pack", "unreadable", "refused", "no-memory",
    };

    text_add(line, own_name);
    text_add(line, "pack=");
    text_add_path(line, options->pack, PACK_NAME_MOST, TEXT_FOR_PROGRAMS);
    text_add(line, " end=");
    text_add(line, ends[report->end]);
    add_pair(line, " pages=", report->pages);
    add_pair(line, " wanted=", report->wanted_pages);
    add_pair(line, " queued=", report->queued_pages);
    add_pair(line, " bytes=", report->pages * HYTHE_PACK_PAGE_BYTES);
    add_pair(line, " files=", report->files);
    add_pair(line, " changed=", report->skipped[REPORT_CHANGED].files);
    add_pair(line, " missing=", report->skipped[REPORT_MISSING].files);
    add_pair(line, " broken=", report->skipped[REPORT_BROKEN].files);
    add_pair(line, " ns=", report->elapsed_ns);
    add_pair(line, " boottime_ns=", report->boot_ns);
}

static void log_line(long log,
                     void (*add)(struct text_line *, const struct report *, const struct options *),
                     const struct report *report, const struct options *options)
{
    struct text_line line;

    line.length = 0;
    /* Level 7: kept by the kernel, and not shown on the console a second time. */
    text_add(&line, "<7>");
    add(&line, report, options);
    end_line(&line);
    /*
     * At once and whole, or not at all: it was opened so that it never waits. The kernel's log
     * cannot be waited for.
     */
    (void)system_write(log, line.bytes, line.length);
}

void report_say(const struct report *report, const struct options *options, int is_first_process)
{
    struct text_line line;
    long log = -1;

    if (options->log[0] != '\0') {
        log = system_open_log(options->log);
    }
    if (log >= 0) {
        log_line(log, add_for_people, report, options);
        log_line(log, add_for_programs, report, options);
        system_close(log);
    }
    if (options->is_quiet && !report_is_failure(report) && options->odd_name == NULL) {
        return;
    }
    line.length = 0;
    add_for_people(&line, report, options);
    say(&line, is_first_process);
}

void report_not_executed(const char *path, const char *why, long error, int is_first_process)
{
    struct text_line line;

    line.length = 0;
    text_add(&line, own_name);
    text_add_path(&line, path, PACK_NAME_MOST, TEXT_FOR_PEOPLE);
    text_add(&line, " is not executed: ");
    if (why != NULL) {
        text_add(&line, why);
    } else {
        add_error(&line, error);
    }
    say(&line, is_first_process);
}

static const char usage[] =
    "usage: preload-init [OPTION...] [--] [COMMAND ARGUMENT...]\n"
    "Reads ahead what a pack lists, then executes the command.\n"
    "  --root DIR     files and pack are below it (default /)\n"
    "  --pack FILE    the pack (default /etc/hythe/boot.pack)\n"
    "  --budget SIZE  at most so much: 8M, 512K, 30% of free memory, or both: 8M,30% (default "
    "50%)\n"
    "  --seconds N    stop after that time (default 20)\n"
    "  --log FILE     a line for programs goes there (default /dev/kmsg; '': nowhere)\n"
    "  --quiet        say nothing when all went well\n";
static const char usage_first[] =
    "As process 1 it takes preload_pack=, preload_budget=, preload_seconds=, preload_log=,\n"
    "preload_quiet=1 and preload_init= from the kernel's command line, and executes the real "
    "init.\n";

void report_usage(const struct options *options)
{
    struct text_line line;

    line.length = 0;
    if (options->wants_help) {
        (void)write_all(OUTPUT, usage, sizeof usage - 1);
        (void)write_all(OUTPUT, usage_first, sizeof usage_first - 1);
        return;
    }
    text_add(&line, own_name);
    text_add(&line, "the option ");
    text_add_path(&line, options->odd_name, FILE_NAME_MOST, TEXT_FOR_PEOPLE);
    if (options->odd_value != NULL) {
        text_add(&line, " cannot be ");
        text_add_path(&line, options->odd_value, FILE_NAME_MOST, TEXT_FOR_PEOPLE);
    } else {
        text_add(&line, " is unknown, or has no value");
    }
    text_add(&line, "; see preload-init --help");
    say(&line, 0);
}
