/* Texts, numbers, options. Never depends on what runs them. */
#include <stdlib.h>
#include <string.h>

#include "../options.h"
#include "../text.h"
#include "test.h"

static struct text_line line;

static const char *written(void)
{
    static char text[TEXT_LINE_BYTES + 1];

    memcpy(text, line.bytes, line.length);
    text[line.length] = '\0';
    line.length = 0;
    return text;
}

static void check_numbers(void)
{
    static const uint64_t values[] = {
        0, 1, 9, 10, 99, 4096, 4294967295u, 4294967296u, UINT64_MAX / 2, UINT64_MAX};
    static const uint32_t divisors[] = {1, 2, 3, 10, 100, 1000000, 2147483648u, 4294967295u};
    char expected[32];
    size_t i;
    size_t j;

    for (i = 0; i < sizeof values / sizeof *values; i++) {
        const char *at = expected;
        uint64_t back;

        snprintf(expected, sizeof expected, "%llu", (unsigned long long)values[i]);
        text_add_number(&line, values[i]);
        CHECK_TEXT(written(), expected);
        CHECK(text_read_number(&at, &back) == 0 && *at == '\0' && back == values[i]);
        for (j = 0; j < sizeof divisors / sizeof *divisors; j++) {
            CHECK(text_divide(values[i], divisors[j]) == values[i] / divisors[j]);
        }
    }
}

static void check_what_is_no_number(void)
{
    static const char *const texts[] = {
        "", "-1", "x", " 1", "18446744073709551616", "99999999999999999999"};
    uint64_t number;
    size_t i;

    for (i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *at = texts[i];

        CHECK_EQUAL(text_read_number(&at, &number), -1);
        CHECK(at == texts[i]);
    }
}

void test_text(void)
{
    unsigned i;

    line.length = 0;
    check_numbers();
    check_what_is_no_number();
    text_add_path(&line, "/a b\n\\c\x7f\xc3\xa4", 100, TEXT_FOR_PEOPLE);
    CHECK_TEXT(written(), "/a b\\x0a\\x5cc\\x7f\xc3\xa4");
    text_add_path(&line, "/a b", 100, TEXT_FOR_PROGRAMS);
    CHECK_TEXT(written(), "/a\\x20b");
    text_add_path(&line, "/usr/lib/long", 4, TEXT_FOR_PEOPLE);
    CHECK_TEXT(written(), "...long");
    text_add_count(&line, 1, "page");
    text_add_count(&line, 2, "page");
    CHECK_TEXT(written(), "1 page2 pages");
    for (i = 0; i < TEXT_LINE_BYTES; i++) {
        text_add(&line, "ab\n");
    }
    CHECK_EQUAL(line.length, TEXT_LINE_BYTES);
    CHECK(text_equal("a", "a") && !text_equal("a", "ab") && !text_equal("ab", "a") &&
          text_equal("", ""));
    CHECK_TEXT(text_after("PATH=/bin", "PATH="), "/bin");
    CHECK(text_after("PAT", "PATH=") == NULL);
}

static struct options options;

/* -1, or 0 with `options` filled. The texts live as long as the options do. */
static int read_arguments(const char *text)
{
    static char copy[256];
    static char *arguments[16];
    size_t count = 1;
    char *word;

    snprintf(copy, sizeof copy, "%s", text);
    arguments[0] = copy;
    for (word = strtok(copy, " "); word != NULL && count < 15; word = strtok(NULL, " ")) {
        arguments[count++] = word;
    }
    arguments[count] = NULL;
    return options_from_arguments(&options, arguments);
}

static void check_budgets(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        uint32_t percent;
    } good[] = {
        {"0", 0, 50},
        {"4096", 4096, 50},
        {"8M", 8 << 20, 50},
        {"16k", 16384, 50},
        {"1G", 1 << 30, 50},
        {"30%", OPTIONS_NO_LIMIT, 30},
        {"100%", OPTIONS_NO_LIMIT, 100},
        {"8M,80%", 8 << 20, 80},
        {"80%,8M", 8 << 20, 80},
    };
    static const char *const bad[] = {"M",        "-1",           "8MB", "101%", "8M,",
                                      "8M,9M,1%", "99999999999G", "8 M", "%",    ",1"};
    char *environment[] = {NULL, NULL};
    char text[64];
    size_t i;

    environment[0] = text;
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "preload_budget=%s", good[i].text);
        options_from_environment(&options, environment);
        CHECK(options.odd_name == NULL);
        CHECK_EQUAL(options.budget_bytes, good[i].bytes);
        CHECK_EQUAL(options.budget_percent, good[i].percent);
    }
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "preload_budget=%s", bad[i]);
        options_from_environment(&options, environment);
        CHECK(options.odd_name != NULL && strcmp(options.odd_value, bad[i]) == 0);
        CHECK_EQUAL(options.budget_bytes, OPTIONS_NO_LIMIT);
        CHECK_EQUAL(options.budget_percent, 50);
    }
}

static void check_environment(void)
{
    char *environment[] = {
        (char *)"HOME=/",
        (char *)"preload_pack=/p",
        (char *)"preload_packs=/no",
        (char *)"preload_init=/sbin/other",
        (char *)"preload_quiet=1",
        (char *)"preload_seconds=7",
        (char *)"preload_log=",
        (char *)"preload_root=/no",
        NULL,
    };

    options_from_environment(&options, environment);
    CHECK_TEXT(options.pack, "/p");
    CHECK_TEXT(options.init, "/sbin/other");
    CHECK_TEXT(options.log, "");
    CHECK_TEXT(options.root, "/");
    CHECK_EQUAL(options.seconds, 7);
    CHECK_EQUAL(options.is_quiet, 1);
    CHECK(options.odd_name == NULL);
}

void test_options(void)
{
    check_budgets();
    check_environment();
    CHECK_EQUAL(read_arguments(""), 0);
    CHECK_TEXT(options.pack, "/etc/hythe/boot.pack");
    CHECK(options.command == NULL);
    CHECK_EQUAL(read_arguments("--root /r --pack /p --quiet --seconds 3 --budget 1M cat --root"),
                0);
    CHECK_TEXT(options.root, "/r");
    CHECK_TEXT(options.pack, "/p");
    CHECK_TEXT(options.command[0], "cat");
    CHECK_TEXT(options.command[1], "--root");
    CHECK_EQUAL(read_arguments("-- --odd"), 0);
    CHECK_TEXT(options.command[0], "--odd");
    CHECK_EQUAL(read_arguments("--"), 0);
    CHECK(options.command == NULL);
    CHECK_EQUAL(read_arguments("--help"), 0);
    CHECK_EQUAL(options.wants_help, 1);
    CHECK_EQUAL(read_arguments("--pack"), -1);
    CHECK_EQUAL(read_arguments("--packs /p"), -1);
    CHECK_TEXT(options.odd_name, "packs");
    CHECK_EQUAL(read_arguments("-v"), -1);
    CHECK_EQUAL(read_arguments("--seconds -1"), -1);
    CHECK_EQUAL(read_arguments("--seconds 86401"), -1);
    CHECK_TEXT(options.odd_value, "86401");
}
