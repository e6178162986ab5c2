/*
 * Conditions: what is known when the image is built, what the board says of itself, and what the
 * measures left out.
 */
#include "report.h"

#include "FreeRTOS.h"
#include "task.h"

#include "hythe_histogram.h"
#include "measure.h"

#ifndef BOARD_FLAGS
#error "whoever builds this says with which flags: -DBOARD_FLAGS=\"...\""
#endif

/* Beside the measured tasks. */
#ifndef BOARD_LOAD
#define BOARD_LOAD "idle"
#endif

enum {
    DIGITS_MAX = 10,
    CHECKSUM_DIGITS = 8
};

static void append(struct text *text, const char *string)
{
    while (*string != '\0') {
        if (text->length < text->room) {
            text->at[text->length] = *string;
        }
        text->length++;
        string++;
    }
}

void text_begin(struct text *text, char *memory, size_t room)
{
    text->at = memory;
    text->room = room;
    text->length = 0;
    append(text, "hythe-latency/1\n");
}

static void append_line(struct text *text, const char *key, const char *value)
{
    append(text, key);
    append(text, "=");
    append(text, value);
    append(text, "\n");
}

void text_add(struct text *text, const char *key, const char *value)
{
    append_line(text, key, value);
}

void text_add_number(struct text *text, const char *key, uint32_t number)
{
    char digits[DIGITS_MAX + 1];
    char *first = digits + DIGITS_MAX;

    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    append_line(text, key, first);
}

size_t text_end(struct text *text)
{
    char digits[CHECKSUM_DIGITS + 1];
    uint32_t checksum;
    unsigned i;

    if (text->length > text->room) {
        return 0;
    }
    checksum = hythe_histogram_crc32c((const uint8_t *)text->at, text->length);
    for (i = 0; i < CHECKSUM_DIGITS; i++) {
        digits[i] = "0123456789abcdef"[checksum >> (28 - 4 * i) & 15];
    }
    digits[CHECKSUM_DIGITS] = '\0';
    append_line(text, "checksum", digits);
    return text->length <= text->room ? text->length : 0;
}

/* `what`.`measure`=`number` */
static void add_of(struct text *text, const char *what, const char *measure, uint32_t number)
{
    char key[sizeof "discarded." + HYTHE_HISTOGRAM_NAME_MAX];
    struct text name = {key, sizeof key - 1, 0};

    append(&name, what);
    append(&name, ".");
    append(&name, measure);
    key[name.length] = '\0';
    text_add_number(text, key, number);
}

void report_conditions(struct text *text, const struct sampler *samplers, unsigned count)
{
    unsigned i;

    text_add(text, "board", measure_facts.board);
    text_add(text, "rtos", "FreeRTOS " tskKERNEL_VERSION_NUMBER);
    text_add(text, "clock", measure_facts.clock);
    text_add_number(text, "clock_hz", measure_facts.clock_hz);
    text_add(text, "pin", measure_facts.pin);
    text_add_number(text, "tick_hz", configTICK_RATE_HZ);
    text_add_number(text, "preemption", configUSE_PREEMPTION);
    text_add_number(text, "time_slicing", configUSE_TIME_SLICING);
    text_add_number(text, "stack_checks", configCHECK_FOR_STACK_OVERFLOW);
    text_add_number(text, "optimised_task_selection", configUSE_PORT_OPTIMISED_TASK_SELECTION);
    text_add(text, "compiler", "GCC " __VERSION__);
    text_add(text, "flags", BOARD_FLAGS);
    text_add(text, "load", BOARD_LOAD);
    for (i = 0; i < count; i++) {
        add_of(text, "discarded", samplers[i].name, samplers[i].discarded);
        if (samplers[i].period != 0) {
            add_of(text, "period", samplers[i].name, samplers[i].period);
        }
    }
    text_add_number(text, "histograms", count);
}
