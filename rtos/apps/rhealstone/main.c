/*
 * Measures, and then tells. See README.md for what.
 *
 * Nothing from outside reaches the core before it has measured: the link and the doorbell begin
 * only then, so that a run can be repeated. The round trip takes Linux, so it is measured behind
 * that, whenever Linux asks for it.
 */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "hythe_freertos.h"
#include "hythe_rt.h"
#include "link_start.h"
#include "measure.h"
#include "measures.h"
#include "report.h"
#include "round_trip.h"
#include "sample.h"
#include "stage.h"

/* Enough for p99.9. Beside others, longer than their time slices take. */
#ifndef SAMPLES
#define SAMPLES 10000
#endif

enum {
    /* Of the timer: one for each of its periods. */
    ALARMS = 2000,
    ROUND_TRIPS = 10000,
    SERIAL_LINE_BYTES = 32,
    RECORD_BYTES_MAX = HYTHE_HISTOGRAM_HEADER_BYTES + HYTHE_HISTOGRAM_PAIR_BYTES * SAMPLE_BUCKETS
};

#define WAIT_MS 1000u
/* A board that is not alone waits until its neighbour has started up. */
#ifndef MEASURE_AFTER_MS
#define MEASURE_AFTER_MS 0
#endif
/*
 * Then it computes for a while: a scheduler that lets those go first who slept must have forgotten
 * it.
 */
#ifndef COMPUTE_BEFORE_MS
#define COMPUTE_BEFORE_MS 0
#endif
#define DIRECTOR_STACK_WORDS (4u * 1024u / sizeof(StackType_t) + configMINIMAL_STACK_SIZE)

struct measure {
    const char *name;
    int (*run)(struct sampler *sampler);
    uint32_t samples;
};

static const struct measure measures[] = {
    {"task_switch", measure_task_switch, SAMPLES},
    {"preemption", measure_preemption, SAMPLES},
    {"interrupt_latency", measure_interrupt_latency, SAMPLES},
    {"semaphore_shuffle", measure_semaphore_shuffle, SAMPLES},
    {"deadlock_break", measure_deadlock_break, SAMPLES},
    {"message_latency", measure_message_latency, SAMPLES},
    {"timer_jitter", measure_timer_jitter, ALARMS},
    {"clock_read", measure_clock_read, SAMPLES},
    {"interrupt_request", measure_interrupt_request_cost, SAMPLES},
};

enum {
    MEASURES = sizeof measures / sizeof measures[0],
    /* Behind them, where there is a Linux that answers. */
    ROUND_TRIP = MEASURES
};

enum {
    ENDPOINT_LATENCY = 0,
    ENDPOINT_QUESTION = 1,
    ENDPOINT_ANSWER = 2,
    ENDPOINTS = 3
};

static const struct hythe_endpoint_config endpoints[ENDPOINTS] = {
    [ENDPOINT_LATENCY] = {"latency", HYTHE_FROM_CORE, RECORD_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_QUESTION] = {"question", HYTHE_FROM_CORE, QUESTION_BYTES, 0, 0, 0},
    [ENDPOINT_ANSWER] = {"answer", HYTHE_TO_CORE, QUESTION_BYTES, 0, 0, 0},
};

static struct sampler samplers[MEASURES + 1];
/* The first of them: what there is to tell. */
static unsigned measured;
static const struct board *own_board;
static struct hythe_freertos freertos;
static struct hythe_port port;
static struct hythe_link core_link;
static volatile int is_linked;
static StackType_t director_stack[DIRECTOR_STACK_WORDS];
static StaticTask_t director_task;

BaseType_t app_bell_from_isr(void)
{
    return is_linked ? hythe_freertos_bell_from_isr(&freertos) : pdFALSE;
}

static void say(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    board_write(text, length);
}

static void must(int good)
{
    if (!good) {
        board_fail(__FILE__, __LINE__);
    }
}

static void compute(uint32_t ms)
{
    uint32_t began = measure_clock();

    while ((uint64_t)(measure_clock() - began) < (uint64_t)measure_facts.clock_hz * ms / 1000u) {
    }
}

static struct sampler *begin(unsigned index, const char *name, uint32_t samples)
{
    struct sampler *sampler = &samplers[index];

    sampler->name = name;
    sampler->edge = (char)('A' + index);
    sampler->left = samples;
    sampler->by = NOBODY;
    sampler->discarded = 0;
    must(hythe_histogram_start(&sampler->histogram, sampler->counts, SAMPLE_PRECISION_BITS,
                               SAMPLE_VALUE_BITS));
    return sampler;
}

static void measure_all(void)
{
    measure_start();
    compute(COMPUTE_BEFORE_MS);
    for (measured = 0; measured < MEASURES; measured++) {
        const struct measure *measure = &measures[measured];

        if (!measure->run(begin(measured, measure->name, measure->samples))) {
            say("rhealstone: hung, or a priority was not inherited, in ");
            say(measure->name);
            say("\n");
            board_fail(__FILE__, __LINE__);
        }
    }
}

/* Writes record `index` of 1 + `measured`, the conditions first. Returns its bytes. */
static size_t write_record(unsigned index, uint8_t *memory, size_t room)
{
    struct text text;

    if (index > 0) {
        const struct sampler *sampler = &samplers[index - 1];
        return hythe_histogram_write(&sampler->histogram, sampler->name, measure_facts.clock_hz,
                                     memory, room);
    }
    text_begin(&text, (char *)memory, room);
    report_conditions(&text, samplers, measured);
    return text_end(&text);
}

/* All records, once; gives up if Linux leaves. */
static void tell(struct hythe_endpoint *latency)
{
    struct hythe_buffer buffer;
    unsigned index;
    size_t bytes;

    for (index = 0; index <= measured; index++) {
        if (hythe_lease(latency, &buffer, WAIT_MS) != HYTHE_OK) {
            return;
        }
        bytes = write_record(index, buffer.data, buffer.length);
        must(bytes > 0);
        if (hythe_publish(&buffer, (uint32_t)bytes, WAIT_MS) < 0) {
            (void)hythe_release(&buffer);
            return;
        }
    }
}

/* One line of a record, or its end (spec/histogram.md, "On a serial line"). */
static void tell_line(const uint8_t *bytes, size_t count)
{
    char line[2 + 2 * SERIAL_LINE_BYTES];
    size_t length = 0;
    size_t i;

    line[length++] = '@';
    for (i = 0; i < count; i++) {
        line[length++] = "0123456789abcdef"[bytes[i] >> 4];
        line[length++] = "0123456789abcdef"[bytes[i] & 15];
    }
    if (count == 0) {
        line[length++] = '.';
    }
    line[length++] = '\n';
    board_write(line, length);
}

/* All records over the console, where no memory is shared. */
static void tell_over_console(void)
{
    static uint8_t record[RECORD_BYTES_MAX];
    unsigned index;
    size_t bytes;
    size_t at;

    for (index = 0; index <= measured; index++) {
        bytes = write_record(index, record, sizeof record);
        must(bytes > 0);
        for (at = 0; at < bytes; at += SERIAL_LINE_BYTES) {
            tell_line(record + at, bytes - at < SERIAL_LINE_BYTES ? bytes - at : SERIAL_LINE_BYTES);
        }
        tell_line(record, 0);
    }
}

static void link_up(void)
{
    const struct hythe_link_config config = {
        .link = own_board->link,
        .link_bytes = own_board->link_bytes,
        .region = own_board->region,
        .region_bytes = own_board->region_bytes,
        .name = "rhealstone",
        .endpoints = endpoints,
        .endpoint_count = ENDPOINTS,
        .sleep_looks = own_board->sleep_looks,
        .port = &port,
    };

    hythe_freertos_start(&freertos, board_ring, &port);
    port.clean = own_board->clean;
    port.invalidate = own_board->invalidate;
    start_link(&core_link, &config);
    is_linked = 1;
    board_open_doorbell();
}

/* Has Linux attached to it since `seen`? */
static int is_attached_anew(const struct hythe_endpoint *endpoint, uint32_t *seen)
{
    struct hythe_counters counters;
    uint32_t before = *seen;

    hythe_endpoint_counters(endpoint, &counters);
    *seen = counters.attachments;
    return counters.attachments != before;
}

static void ask(struct hythe_endpoint *question)
{
    struct sampler *sampler = begin(ROUND_TRIP, "round_trip", ROUND_TRIPS);

    measured = MEASURES;
    if (measure_round_trip(sampler, question, hythe_link_endpoint(&core_link, ENDPOINT_ANSWER))) {
        measured = ROUND_TRIP + 1;
    }
}

static void serve(void)
{
    struct hythe_endpoint *latency = hythe_link_endpoint(&core_link, ENDPOINT_LATENCY);
    struct hythe_endpoint *question = hythe_link_endpoint(&core_link, ENDPOINT_QUESTION);
    uint32_t asked = 0;
    uint32_t told = 0;

    for (;;) {
        (void)hythe_link_wait(&core_link, WAIT_MS);
        if (is_attached_anew(question, &asked)) {
            ask(question);
        }
        /* Anew for each who attaches: the figures stay. */
        if (is_attached_anew(latency, &told)) {
            tell(latency);
        }
        vTaskDelay(1);
    }
}

static void director_run(void *argument)
{
    (void)argument;
    vTaskDelay(pdMS_TO_TICKS(MEASURE_AFTER_MS));
    /* Silent until then: the emulator's record does not tell the console from the pin. */
    measure_all();
    say("\nrhealstone: measured\n");
    if (own_board->link == NULL) {
        tell_over_console();
        say("rhealstone: told\n");
        board_end();
    }
    link_up();
    serve();
}

void app_start(const struct board *board)
{
    static struct board copy;

    copy = *board;
    own_board = &copy;
    stage_open();
    must(xTaskCreateStatic(director_run, "director", DIRECTOR_STACK_WORDS, NULL, PRIORITY_DIRECTOR,
                           director_stack, &director_task) != NULL);
}
