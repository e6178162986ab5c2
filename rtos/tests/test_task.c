/* Control of registered tasks (spec/control.md): each method, each refusal, and what is no call. */
#include <string.h>

#include "call.h"
#include "control.h"
#include "task.h"
#include "tasks.h"
#include "test.h"
#include "vectors.h"

enum {
    SLOT = 1,
    OFFSET = 256,
    KIND_REQUEST = 1,
    KIND_REPLY = 2,
    KIND_GIVEN_UP = 3
};

/* What came of a call. */
struct reply {
    int32_t result;
    uint32_t values[5];
    uint32_t length;
    uint8_t bytes[HYTHE_CONTROL_BYTES];
};

static uint8_t *payload(struct tasks *tasks)
{
    return tasks->world.region_memory + (size_t)SLOT * WORLD_SLOT_BYTES + OFFSET;
}

static void push(struct tasks *tasks, const uint32_t words[HYTHE_CALL_WORDS], const char *bytes,
                 uint32_t length)
{
    struct descriptor request = linux_slot(&tasks->world.side, 0, SLOT, HYTHE_CALL_BYTES + length);
    uint32_t header[4] = {KIND_REQUEST, 0, 7, 0};

    request.offset = OFFSET;
    memcpy(tasks->world.region_memory + (size_t)SLOT * WORLD_SLOT_BYTES, header, sizeof header);
    hythe_call_write(payload(tasks), words);
    memcpy(payload(tasks) + HYTHE_CALL_BYTES, bytes, length);
    linux_push(&tasks->world.side, LINUX_FLOW(IN, 0), request);
}

static struct reply call_with(struct tasks *tasks, uint32_t method, const uint32_t arguments[3],
                              const char *bytes)
{
    uint32_t length = (uint32_t)strlen(bytes);
    uint32_t words[HYTHE_CALL_WORDS] = {HYTHE_METHOD_OF_HYTHE | method,
                                        0,
                                        1000,
                                        0,
                                        arguments[0],
                                        arguments[1],
                                        arguments[2],
                                        length};
    struct descriptor got = {0};
    struct reply reply;

    push(tasks, words, bytes, length);
    tasks->self = TASK_SERVICE;
    CHECK_EQUAL(hythe_service_run(&tasks->service, 0), HYTHE_OK);
    CHECK(linux_take(&tasks->world.side, LINUX_FLOW(IN, 0), &got));
    hythe_call_read(payload(tasks), words);
    CHECK_EQUAL(words[HYTHE_CALL_METHOD], HYTHE_METHOD_OF_HYTHE | method);
    reply.result = (int32_t)words[HYTHE_CALL_RESULT];
    memcpy(reply.values, words + HYTHE_CALL_VALUE, sizeof reply.values);
    reply.length = words[HYTHE_CALL_LENGTH];
    CHECK_EQUAL(got.length, HYTHE_CALL_BYTES + reply.length);
    memcpy(reply.bytes, payload(tasks) + HYTHE_CALL_BYTES, reply.length);
    return reply;
}

static struct reply call(struct tasks *tasks, uint32_t method, uint32_t argument, const char *bytes)
{
    const uint32_t arguments[3] = {argument, 0, 0};

    return call_with(tasks, method, arguments, bytes);
}

/* The result of a method of one task, and its number. */
static int32_t of_task(struct tasks *tasks, uint32_t method, const char *name, uint32_t *number)
{
    struct reply reply = call(tasks, method, (uint32_t)strlen(name), name);

    *number = reply.values[0];
    return reply.result;
}

static uint32_t word_at(const uint8_t *bytes, uint32_t at)
{
    return bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 |
           (uint32_t)bytes[at + 3] << 24;
}

static void tasks_are_started_asked_to_stop_and_killed_by_name(void)
{
    struct tasks tasks;
    struct reply reply;
    uint32_t number;

    tasks_make(&tasks);
    CHECK_EQUAL(tasks.creates, 1);
    reply = call(&tasks, HYTHE_CONTROL_START, 1, "aArgument");
    CHECK_EQUAL(reply.result, 0);
    CHECK_EQUAL(reply.values[0], TASK_A + 1);
    CHECK(strcmp(tasks.memory[TASK_A].argument, "Argument") == 0);
    CHECK_EQUAL(tasks.memory[TASK_A].argument_bytes, 8);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "a", &number), HYTHE_CONTROL_RUNS);
    CHECK(!hythe_task_should_stop(&tasks.memory[TASK_A]));
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_STOP, "a", &number), 0);
    CHECK(hythe_task_should_stop(&tasks.memory[TASK_A]));
    /* It returns: the next call finds it so. */
    hythe_task_main(&tasks.memory[TASK_A]);
    CHECK_EQUAL(tasks.kills, 0);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_STOP, "a", &number), HYTHE_CONTROL_NOT_RUNNING);
    CHECK_EQUAL(tasks.kills, 1);
    CHECK_EQUAL(tasks.memory[TASK_A].kills, 0);
    /* What it was asked for in an earlier life is forgotten, and so is its argument. */
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "2", &number), 0);
    CHECK_EQUAL(number, 2);
    CHECK(!hythe_task_should_stop(&tasks.memory[TASK_A]));
    CHECK_EQUAL(tasks.memory[TASK_A].argument_bytes, 0);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "a", &number), 0);
    CHECK_EQUAL(tasks.memory[TASK_A].kills, 1);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "a", &number), HYTHE_CONTROL_NOT_RUNNING);
    world_free(&tasks.world);
}

static void several_of_a_name_are_taken_in_turn(void)
{
    struct tasks tasks;
    uint32_t number;

    tasks_make(&tasks);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "twin", &number), 0);
    CHECK_EQUAL(number, TASK_B + 1);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "twin", &number), 0);
    CHECK_EQUAL(number, TASK_B2 + 1);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "twin", &number), HYTHE_CONTROL_TOO_MANY);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "3", &number), HYTHE_CONTROL_RUNS);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "twin", &number), 0);
    CHECK_EQUAL(number, TASK_B + 1);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "twin", &number), 0);
    CHECK_EQUAL(number, TASK_B2 + 1);
    world_free(&tasks.world);
}

static void each_refusal_has_its_own_result(void)
{
    static const char *const unknown[] = {"b", "aa", "A", "0", "5", "999", "0002", "4294967298"};
    char long_name[HYTHE_TASK_NAME_BYTES + 2];
    char argument[HYTHE_TASK_ARGUMENT_BYTES + 3];
    struct tasks tasks;
    struct reply reply;
    uint32_t number;
    size_t i;

    tasks_make(&tasks);
    for (i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, unknown[i], &number),
                    HYTHE_CONTROL_UNKNOWN);
        CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, unknown[i], &number),
                    HYTHE_CONTROL_UNKNOWN);
    }
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_STOP, "", &number), HYTHE_CONTROL_MALFORMED);
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, long_name, &number), HYTHE_CONTROL_MALFORMED);
    /* A name that is longer than the bytes there are. */
    reply = call(&tasks, HYTHE_CONTROL_START, 2, "a");
    CHECK_EQUAL(reply.result, HYTHE_CONTROL_MALFORMED);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_STOP, "service", &number), HYTHE_CONTROL_PERMANENT);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "1", &number), HYTHE_CONTROL_PERMANENT);
    memset(argument, 'a', sizeof argument);
    argument[sizeof argument - 1] = '\0';
    reply = call(&tasks, HYTHE_CONTROL_START, 1, argument);
    CHECK_EQUAL(reply.result, HYTHE_CONTROL_TOO_LONG);
    argument[sizeof argument - 2] = '\0';
    reply = call(&tasks, HYTHE_CONTROL_START, 1, argument);
    CHECK_EQUAL(reply.result, 0);
    CHECK_EQUAL(tasks.memory[TASK_A].argument_bytes, HYTHE_TASK_ARGUMENT_BYTES);
    tasks.refuses = 1;
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "twin", &number), HYTHE_CONTROL_NO_MEMORY);
    CHECK_EQUAL(tasks.memory[TASK_B].state, TASK_STOPPED);
    CHECK_EQUAL(tasks.memory[TASK_B].starts, 0);
    tasks.refuses = 0;
    reply = call(&tasks, 72, 0, "");
    CHECK_EQUAL(reply.result, HYTHE_CONTROL_NO_METHOD);
    reply = call(&tasks, HYTHE_CONTROL_TASKS - 64, 0, "");
    CHECK_EQUAL(reply.result, HYTHE_CONTROL_NO_METHOD);
    world_free(&tasks.world);
}

static void a_task_that_does_not_begin_is_told_after_a_second(void)
{
    struct tasks tasks;
    uint32_t start_ms;
    uint32_t number;

    tasks_make(&tasks);
    tasks.runs = 0;
    start_ms = tasks.world.now_ms;
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "a", &number), HYTHE_CONTROL_NOT_BEGUN);
    CHECK_EQUAL(tasks.world.now_ms - start_ms, 1000);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "a", &number), HYTHE_CONTROL_RUNS);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "a", &number), 0);
    tasks.runs = 1;
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "a", &number), 0);
    world_free(&tasks.world);
}

static void rows_tell_what_a_task_is(void)
{
    struct tasks tasks;
    struct reply reply;
    const uint8_t *row;
    uint32_t number;

    tasks_make(&tasks);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "twin", &number), 0);
    reply = call(&tasks, HYTHE_CONTROL_TASKS, 0, "");
    CHECK_EQUAL(reply.result, 0);
    CHECK_EQUAL(reply.values[0], TASKS);
    CHECK_EQUAL(reply.length, TASKS * HYTHE_TASK_ROW_BYTES);
    row = reply.bytes + (size_t)TASK_B * HYTHE_TASK_ROW_BYTES;
    CHECK(strcmp((const char *)row + HYTHE_TASK_AT_NAME, "twin") == 0);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_NUMBER), TASK_B + 1);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_STATE), HYTHE_TASK_IS_BLOCKED);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_FLAGS), 0);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_PRIORITY), 2);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_STACK_BYTES), 1000 + TASK_B);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_STACK_FREE), 100);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_RUN_TIME_LOW), 705032704);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_RUN_TIME_HIGH), 1);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_STARTS), 1);
    /* Of the one that answers. */
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_TASK_AT_HELD), 1);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_TASK_AT_FLAGS),
                HYTHE_TASK_AT_START | HYTHE_TASK_PERMANENT);
    /* The time of its earlier life goes on, and the stack's mark stays. */
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_KILL, "twin", &number), 0);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "twin", &number), 0);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_STOP, "twin", &number), 0);
    reply = call(&tasks, HYTHE_CONTROL_TASKS, TASK_B, "");
    CHECK_EQUAL(reply.length, 2 * HYTHE_TASK_ROW_BYTES);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_TASK_AT_FLAGS), HYTHE_TASK_FLAG_ASKED_TO_STOP);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_TASK_AT_RUN_TIME_HIGH), 2);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_TASK_AT_KILLS), 1);
    CHECK_EQUAL(word_at(reply.bytes + HYTHE_TASK_ROW_BYTES, HYTHE_TASK_AT_STACK_FREE),
                HYTHE_STACK_UNKNOWN);
    reply = call(&tasks, HYTHE_CONTROL_TASKS, UINT32_MAX, "");
    CHECK_EQUAL(reply.length, 0);
    world_free(&tasks.world);
}

static void the_state_and_the_end_of_a_session_are_told(void)
{
    struct tasks tasks;
    struct reply reply;
    uint32_t number;

    tasks_make(&tasks);
    reply = call(&tasks, HYTHE_CONTROL_HELLO, 0, "");
    CHECK_EQUAL(reply.values[0], HYTHE_CONTROL_VERSION);
    CHECK_EQUAL(reply.values[1], TASKS);
    CHECK((uintptr_t)((uint64_t)reply.values[3] << 32 | reply.values[2]) ==
          (uintptr_t)tasks.world.region_memory);
    reply = call(&tasks, HYTHE_CONTROL_STATE, 0, "");
    CHECK_EQUAL(reply.values[0], tasks.world.link.session);
    CHECK_EQUAL(reply.values[1], tasks.world.side.session);
    CHECK_EQUAL(reply.values[2], 1);
    CHECK_EQUAL(reply.length, WORLD_ENDPOINTS * HYTHE_PORT_ROW_BYTES);
    /* The request itself. */
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_PORT_AT_INBOX_HEAD), 2);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_PORT_AT_OUTBOX_TAIL), 1);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_PORT_AT_HELD), 1);
    CHECK_EQUAL(word_at(reply.bytes, HYTHE_PORT_AT_WINDOW), WORLD_CAPACITY);
    CHECK_EQUAL(word_at(reply.bytes + 3 * HYTHE_PORT_ROW_BYTES, HYTHE_PORT_AT_ENDPOINT), OUT2);
    CHECK_EQUAL(of_task(&tasks, HYTHE_CONTROL_START, "a", &number), 0);
    reply = call(&tasks, HYTHE_CONTROL_SHUTDOWN, 0, "");
    CHECK_EQUAL(reply.values[0], 1);
    CHECK_EQUAL(reply.values[1], 0);
    CHECK(hythe_task_should_stop(&tasks.memory[TASK_A]));
    CHECK(!hythe_task_should_stop(&tasks.memory[TASK_SERVICE]));
    world_free(&tasks.world);
}

static void a_segment_is_made_for_linux_or_refused(void)
{
    const uint32_t wish[3] = {0x1234, 4096, 0x380};
    struct tasks tasks;
    struct reply reply;

    tasks_make(&tasks);
    tasks.made = 77;
    reply = call_with(&tasks, HYTHE_CONTROL_MAKE, wish, "");
    CHECK_EQUAL(reply.result, 0);
    CHECK_EQUAL(reply.values[0], 77);
    CHECK(memcmp(tasks.wanted, wish, sizeof wish) == 0);
    CHECK_EQUAL(tasks.wanted[3], 1000);
    tasks.made = -13;
    CHECK_EQUAL(call_with(&tasks, HYTHE_CONTROL_MAKE, wish, "").result, -13);
    tasks.service.config.make_segment = NULL;
    CHECK_EQUAL(call_with(&tasks, HYTHE_CONTROL_MAKE, wish, "").result, HYTHE_CONTROL_NO_METHOD);
    world_free(&tasks.world);
}

static void a_byte_of_the_area_has_an_address_and_no_other_byte(void)
{
    /* The first and the last byte; behind the page, behind the area. */
    const uint32_t inside[2][3] = {{0, 0, 0}, {1, 4095, 0}};
    const uint32_t outside[4][3] = {{0, 4096, 0}, {2, 0, 0}, {0xFFFFFFFF, 0, 0}, {1, 0x80000000}};
    struct tasks tasks;
    struct reply reply;
    uint32_t i;

    tasks_make(&tasks);
    for (i = 0; i < 2; i++) {
        uint8_t *at = tasks.world.region_memory + inside[i][0] * 4096 + inside[i][1];
        *at = (uint8_t)(0xA0 + i);
        reply = call_with(&tasks, HYTHE_CONTROL_PEEK, inside[i], "");
        CHECK_EQUAL(reply.result, 0);
        CHECK_EQUAL(reply.values[0], 0xA0 + i);
        CHECK_EQUAL((uint64_t)reply.values[2] << 32 | reply.values[1], (uintptr_t)at);
    }
    for (i = 0; i < 4; i++) {
        reply = call_with(&tasks, HYTHE_CONTROL_PEEK, outside[i], "");
        CHECK_EQUAL(reply.result, HYTHE_CONTROL_MALFORMED);
        CHECK_EQUAL(reply.values[0], 0);
    }
    tasks.service.config.segments_bytes = 0;
    CHECK_EQUAL(call_with(&tasks, HYTHE_CONTROL_PEEK, inside[0], "").result,
                HYTHE_CONTROL_MALFORMED);
    world_free(&tasks.world);
}

/* Linux writes the byte of the area's start while the core still has its line in the cache. */
static void linux_writes_behind_the_cache(struct world *world, const volatile void *at)
{
    if (at == world->region_memory) {
        world->region_memory[0] = 0xB1;
    }
}

static void a_byte_of_the_area_comes_from_memory_not_from_the_cache(void)
{
    const uint32_t first[3] = {0, 0, 0};
    struct tasks tasks;

    tasks_make(&tasks);
    tasks.world.region_memory[0] = 0xA0;
    tasks.world.before_read = linux_writes_behind_the_cache;
    CHECK_EQUAL(call_with(&tasks, HYTHE_CONTROL_PEEK, first, "").values[0], 0xB1);
    world_free(&tasks.world);
}

static void what_is_no_call_is_given_up(void)
{
    static const uint32_t wrong[][HYTHE_CALL_WORDS] = {
        {0, 0, 0, 0, 0, 0, 0, 0},
        {HYTHE_METHOD_OF_HYTHE | HYTHE_CONTROL_TASKS, 0, 0, 0, 0, 0, 0, 1},
    };
    struct tasks tasks;
    struct descriptor got;
    uint32_t kind;
    size_t i;

    tasks_make(&tasks);
    for (i = 0; i < 3; i++) {
        struct descriptor request = linux_slot(&tasks.world.side, 0, SLOT, 31);
        if (i < 2) {
            push(&tasks, wrong[i], "", 0);
        } else {
            linux_push(&tasks.world.side, LINUX_FLOW(IN, 0), request);
        }
        CHECK(hythe_service_run(&tasks.service, 0) < 0);
        CHECK(linux_take(&tasks.world.side, LINUX_FLOW(IN, 0), &got));
        memcpy(&kind, tasks.world.region_memory + (size_t)SLOT * WORLD_SLOT_BYTES, sizeof kind);
        CHECK_EQUAL(kind, KIND_GIVEN_UP);
    }
    CHECK_EQUAL(world_counters(&tasks.world, IN).violations, 3);
    world_free(&tasks.world);
}

static void a_table_that_makes_no_sense_is_refused(void)
{
    struct tasks tasks;
    struct hythe_tasks_config config;
    struct hythe_service_config served = {0};

    tasks_make(&tasks);
    config = tasks.tasks.config;
    config.link = NULL;
    CHECK_EQUAL(hythe_tasks_start(&tasks.tasks, &config), HYTHE_E_ARGUMENT);
    config = tasks.tasks.config;
    tasks.configs[TASK_A].name = "";
    CHECK_EQUAL(hythe_tasks_start(&tasks.tasks, &config), HYTHE_E_ARGUMENT);
    tasks.configs[TASK_A].name = "a name that is longer than a row";
    CHECK_EQUAL(hythe_tasks_start(&tasks.tasks, &config), HYTHE_OK);
    tasks.configs[TASK_A].name = "a name that is longer than a row.";
    CHECK_EQUAL(hythe_tasks_start(&tasks.tasks, &config), HYTHE_E_ARGUMENT);
    tasks.configs[TASK_A].name = "a";
    tasks.refuses = 1;
    CHECK_EQUAL(hythe_tasks_start(&tasks.tasks, &config), HYTHE_E_ARGUMENT);
    served.tasks = &tasks.tasks;
    CHECK_EQUAL(hythe_service_start(&tasks.service, &served), HYTHE_E_ARGUMENT);
    served.endpoint = world_endpoint(&tasks.world, OUT);
    CHECK_EQUAL(hythe_service_start(&tasks.service, &served), HYTHE_E_ARGUMENT);
    served.endpoint = world_endpoint(&tasks.world, IN);
    CHECK_EQUAL(hythe_service_start(&tasks.service, &served), HYTHE_OK);
    served.tasks = NULL;
    CHECK_EQUAL(hythe_service_start(&tasks.service, &served), HYTHE_E_ARGUMENT);
    world_free(&tasks.world);
}

static void rows_are_those_of_the_page(void)
{
    static struct vectors vectors;
    uint8_t row[HYTHE_TASK_ROW_BYTES];
    const char *group = "task.each_field";

    CHECK(vectors_read(&vectors, "control.txt"));
    CHECK_EQUAL(vectors_bytes(vectors_text(&vectors, group, "hex"), row, sizeof row), sizeof row);
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_NUMBER), vectors_number(&vectors, group, "number"));
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_PRIORITY), vectors_number(&vectors, group, "priority"));
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_STARTS), vectors_number(&vectors, group, "starts"));
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_FORGOTTEN),
                vectors_number(&vectors, group, "requests_forgotten"));
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_FAULT), vectors_number(&vectors, group, "fault"));
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_FAULT_ADDRESS),
                vectors_number(&vectors, group, "fault_address"));
    CHECK_EQUAL(word_at(row, HYTHE_TASK_AT_FAULT_PC), vectors_number(&vectors, group, "fault_pc"));
    group = "port.each_field";
    CHECK_EQUAL(vectors_bytes(vectors_text(&vectors, group, "hex"), row, HYTHE_PORT_ROW_BYTES),
                HYTHE_PORT_ROW_BYTES);
    CHECK_EQUAL(word_at(row, HYTHE_PORT_AT_HELD), vectors_number(&vectors, group, "held"));
    CHECK_EQUAL(word_at(row, HYTHE_PORT_AT_FLAGS), vectors_number(&vectors, group, "flags"));
}

void test_task(void)
{
    RUN(tasks_are_started_asked_to_stop_and_killed_by_name);
    RUN(several_of_a_name_are_taken_in_turn);
    RUN(each_refusal_has_its_own_result);
    RUN(a_task_that_does_not_begin_is_told_after_a_second);
    RUN(rows_tell_what_a_task_is);
    RUN(the_state_and_the_end_of_a_session_are_told);
    RUN(a_segment_is_made_for_linux_or_refused);
    RUN(a_byte_of_the_area_has_an_address_and_no_other_byte);
    RUN(a_byte_of_the_area_comes_from_memory_not_from_the_cache);
    RUN(what_is_no_call_is_given_up);
    RUN(a_table_that_makes_no_sense_is_refused);
    RUN(rows_are_those_of_the_page);
}
