/* The gate of a restricted task: what it reaches, what it asks for, and that faults end it. */
#include "freertos/hythe_gate_call.h"
#include "linux_side.h"
#include "services.h"
#include "task.h"
#include "tasks.h"
#include "test.h"

#include <string.h>

#define BYTES 64u

/* What a restricted task has: its stack, a segment to read only, the slots; each with others' bytes
 * around it. */
struct fixture {
    struct tasks tasks;
    struct hythe_gate_server server;
    struct hythe_restriction restriction;
    struct hythe_endpoint *endpoints[2];
    union {
        uint8_t bytes[3 * BYTES];
        struct hythe_gate_call aligned;
    } stack;
    uint8_t segment[3 * BYTES];
};

static struct fixture fixture;

static void run(struct hythe_gate *gate)
{
    (void)gate;
}

static void make(void)
{
    struct hythe_gate_server *server = &fixture.server;
    struct hythe_task *task = &fixture.tasks.memory[TASK_A];

    memset(&fixture, 0, sizeof fixture);
    tasks_make(&fixture.tasks);
    fixture.restriction.run = run;
    fixture.restriction.slots = 1;
    fixture.restriction.endpoints = fixture.endpoints;
    fixture.restriction.endpoint_count = 2;
    fixture.endpoints[0] = world_endpoint(&fixture.tasks.world, IN2);
    fixture.endpoints[1] = world_endpoint(&fixture.tasks.world, OUT2);
    fixture.tasks.configs[TASK_A].restriction = &fixture.restriction;
    fixture.tasks.self = TASK_A;
    server->task = task;
    server->ranges[0] = (struct hythe_gate_range){(uintptr_t)fixture.stack.bytes + BYTES, BYTES, 1};
    server->ranges[1] = (struct hythe_gate_range){(uintptr_t)fixture.segment + BYTES, BYTES, 0};
    server->ranges[2] = (struct hythe_gate_range){(uintptr_t)fixture.tasks.world.region_memory,
                                                  fixture.tasks.world.link.region_bytes, 1};
    server->range_count = 3;
}

static void a_range_is_reached_up_to_each_of_its_edges(void)
{
    const struct hythe_gate_server *server = &fixture.server;
    uintptr_t stack;
    uintptr_t segment;

    make();
    stack = server->ranges[0].first;
    segment = server->ranges[1].first;
    CHECK(hythe_gate_reaches(server, stack, BYTES, 1));
    CHECK(hythe_gate_reaches(server, stack + BYTES - 1, 1, 1));
    CHECK(hythe_gate_reaches(server, stack + BYTES, 0, 1));
    CHECK(hythe_gate_reaches(server, segment, BYTES, 0));
    CHECK(!hythe_gate_reaches(server, stack - 1, 1, 1));
    CHECK(!hythe_gate_reaches(server, stack - 1, 0, 1));
    CHECK(!hythe_gate_reaches(server, stack - 1, BYTES, 1));
    CHECK(!hythe_gate_reaches(server, stack, BYTES + 1, 1));
    CHECK(!hythe_gate_reaches(server, stack + 1, BYTES, 1));
    CHECK(!hythe_gate_reaches(server, stack + BYTES, 1, 1));
    CHECK(!hythe_gate_reaches(server, stack + BYTES + 1, 0, 1));
    CHECK(!hythe_gate_reaches(server, segment, 1, 1));
    /* Around the end of all addresses. */
    CHECK(!hythe_gate_reaches(server, stack, SIZE_MAX, 1));
    CHECK(!hythe_gate_reaches(server, stack + 1, SIZE_MAX, 1));
    CHECK(!hythe_gate_reaches(server, UINTPTR_MAX, 2, 1));
    CHECK(!hythe_gate_reaches(server, UINTPTR_MAX - BYTES, SIZE_MAX, 1));
    CHECK(!hythe_gate_reaches(server, 0, 1, 0));
    world_free(&fixture.tasks.world);
}

/* One at the edge of another range is no part of both. */
static void two_ranges_are_not_one(void)
{
    struct hythe_gate_server *server = &fixture.server;

    make();
    server->ranges[1] = (struct hythe_gate_range){server->ranges[0].first + BYTES, BYTES, 1};
    CHECK(hythe_gate_reaches(server, server->ranges[1].first, BYTES, 1));
    CHECK(!hythe_gate_reaches(server, server->ranges[1].first - 1, 2, 1));
    world_free(&fixture.tasks.world);
}

static struct hythe_gate_call *call_at(size_t offset)
{
    return (struct hythe_gate_call *)(void *)(fixture.stack.bytes + offset);
}

static int ask(struct hythe_gate_call *call)
{
    hythe_gate_serve(&fixture.server, (uintptr_t)call);
    return call->result;
}

static void a_call_that_the_task_does_not_reach_is_left_alone(void)
{
    static const size_t offsets[] = {0, BYTES - 8,
                                     BYTES + 8 + BYTES - sizeof(struct hythe_gate_call), 2 * BYTES};
    uint32_t i;

    make();
    for (i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct hythe_gate_call *call = call_at(offsets[i]);
        memset(call, 0, sizeof *call);
        call->operation = HYTHE_GATE_END;
        call->result = 77;
        CHECK_EQUAL(ask(call), 77);
        CHECK(!fixture.server.has_ended);
    }
    hythe_gate_serve(&fixture.server, UINTPTR_MAX);
    hythe_gate_serve(&fixture.server, 0);
    /* It may be read there, not written. */
    hythe_gate_serve(&fixture.server, fixture.server.ranges[1].first);
    CHECK(!fixture.server.has_ended);
    call_at(BYTES)->operation = HYTHE_GATE_END;
    CHECK_EQUAL(ask(call_at(BYTES)), HYTHE_OK);
    CHECK(fixture.server.has_ended);
    world_free(&fixture.tasks.world);
}

static int begin(uint8_t *at, uint32_t bytes)
{
    struct hythe_gate_call *call = call_at(BYTES);

    memset(call, 0, sizeof *call);
    call->operation = HYTHE_GATE_BEGIN;
    call->at = at;
    call->bytes = bytes;
    return ask(call);
}

static void the_argument_goes_only_where_the_task_may_write(void)
{
    uint8_t *end = fixture.stack.bytes + 2 * BYTES;
    struct hythe_task *task = &fixture.tasks.memory[TASK_A];

    make();
    memcpy(task->argument, "abc", 4);
    task->argument_bytes = 3;
    CHECK_EQUAL(begin(end - 4, 4), HYTHE_OK);
    CHECK(memcmp(end - 4, "abc", 4) == 0);
    CHECK_EQUAL(call_at(BYTES)->bytes, 3);
    CHECK(call_at(BYTES)->value == (uintptr_t)run);
    memset(end - 4, 9, 8);
    CHECK_EQUAL(begin(end - 4, 3), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(begin(end - 4, 5), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(begin(end - 3, 4), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(begin(end - 4, UINT32_MAX), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(begin((uint8_t *)(UINTPTR_MAX - 3), 4), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(begin(fixture.segment + BYTES, 4), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(begin(NULL, 4), HYTHE_E_ARGUMENT);
    CHECK(end[-4] == 9 && end[-1] == 9 && end[0] == 9);
    CHECK(fixture.segment[BYTES] == 0);
    world_free(&fixture.tasks.world);
}

static int buffer_call(uint32_t operation, uint32_t target, uint32_t buffer, uint32_t bytes)
{
    struct hythe_gate_call *call = call_at(BYTES);

    memset(call, 0, sizeof *call);
    call->operation = operation;
    call->target = target;
    call->buffer = buffer;
    call->bytes = bytes;
    return ask(call);
}

static void buffers_are_known_by_their_numbers_alone(void)
{
    static const uint32_t wrong[] = {0, 2, HYTHE_GATE_BUFFERS + 1, UINT32_MAX};
    uint32_t i;

    make();
    linux_push(&fixture.tasks.world.side, LINUX_FLOW(OUT2, 0),
               linux_slot(&fixture.tasks.world.side, 0, 1, WORLD_SLOT_BYTES - 256));
    CHECK_EQUAL(buffer_call(HYTHE_GATE_LEASE, 1, 0, 0), HYTHE_OK);
    CHECK_EQUAL(call_at(BYTES)->buffer, 1);
    CHECK(hythe_gate_reaches(&fixture.server, (uintptr_t)call_at(BYTES)->at, call_at(BYTES)->bytes,
                             1));
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_EQUAL(buffer_call(HYTHE_GATE_PUBLISH, 0, wrong[i], 1), HYTHE_E_ARGUMENT);
        CHECK_EQUAL(call_at(BYTES)->buffer, 0);
        CHECK_EQUAL(buffer_call(HYTHE_GATE_FORWARD, 1, wrong[i], 0), HYTHE_E_ARGUMENT);
        CHECK_EQUAL(buffer_call(HYTHE_GATE_RELEASE, 0, wrong[i], 0), HYTHE_E_ARGUMENT);
    }
    CHECK_EQUAL(buffer_call(HYTHE_GATE_PUBLISH, 0, 1, UINT32_MAX), HYTHE_E_LENGTH);
    CHECK_EQUAL(call_at(BYTES)->buffer, 1);
    CHECK_EQUAL(buffer_call(HYTHE_GATE_RELEASE, 0, 1, 0), HYTHE_OK);
    CHECK_EQUAL(call_at(BYTES)->buffer, 0);
    CHECK_EQUAL(buffer_call(HYTHE_GATE_RELEASE, 0, 1, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(buffer_call(HYTHE_GATE_RECEIVE, 2, 0, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(buffer_call(HYTHE_GATE_RECEIVE, UINT32_MAX, 0, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(buffer_call(HYTHE_GATE_OPERATIONS, 0, 0, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(buffer_call(UINT32_MAX, 0, 0, 0), HYTHE_E_ARGUMENT);
    fixture.restriction.slots = 0;
    CHECK_EQUAL(buffer_call(HYTHE_GATE_RECEIVE, 0, 0, 0), HYTHE_E_ARGUMENT);
    world_free(&fixture.tasks.world);
}

static int message_call(uint32_t operation, uint32_t target, const uint8_t *at, uint32_t bytes)
{
    struct hythe_gate_call *call = call_at(BYTES);

    memset(call, 0, sizeof *call);
    call->operation = operation;
    call->target = target;
    call->at = (uint8_t *)(uintptr_t)at;
    call->bytes = bytes;
    return ask(call);
}

static void messages_stand_only_where_the_task_reaches(void)
{
    static const char *const names[] = {"q", "q", "q"};
    static struct hythe_services services;
    const uint8_t *end = fixture.segment + 2 * BYTES;
    uint32_t place;

    make();
    fixture.restriction.queues = names;
    fixture.restriction.queue_count = 3;
    fixture.restriction.semaphores = names;
    fixture.restriction.semaphore_count = 1;
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_SEND, 0, end - 8, 8), -HYTHE_EBADF);
    fixture.tasks.tasks.config.services = &services;
    services.client.endpoint = world_endpoint(&fixture.tasks.world, OUT);
    services.client.requests = fixture.tasks.open;
    services.client.request_count = TASKS_OPEN;
    for (place = HYTHE_GATE_OBJECTS; place < 5; place++) {
        CHECK_EQUAL(message_call(HYTHE_GATE_MQ_SEND, place, end - 8, 8), -HYTHE_EBADF);
        CHECK_EQUAL(message_call(HYTHE_GATE_SEM_WAIT, place - 1, NULL, 0), -HYTHE_EBADF);
        CHECK_EQUAL(message_call(HYTHE_GATE_SEM_POST, place - 1, NULL, 0), -HYTHE_EBADF);
    }
    /* Within, it is the agent who is asked, and there is none. */
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_SEND, 0, end - 8, 8), -HYTHE_ETIMEDOUT);
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_SEND, 0, end - 8, 9), -HYTHE_EFAULT);
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_SEND, 0, end - 8, UINT32_MAX), -HYTHE_EFAULT);
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_SEND, 0, NULL, 8), -HYTHE_EFAULT);
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_RECEIVE, 0, end - 8, 8), -HYTHE_EFAULT);
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_RECEIVE, 0, fixture.stack.bytes + BYTES, BYTES),
                -HYTHE_ETIMEDOUT);
    CHECK_EQUAL(message_call(HYTHE_GATE_MQ_RECEIVE, 0, fixture.stack.bytes + BYTES, BYTES + 1),
                -HYTHE_EFAULT);
    world_free(&fixture.tasks.world);
}

/* ---- A fault, as the platform tells it ---- */

static int has_faulted(void *context, const void *identity, struct hythe_fault *fault)
{
    const struct hythe_fault told = {HYTHE_FAULT_WRITE, 0x21300000u, 0x1234u};

    (void)context;
    CHECK(identity != NULL);
    *fault = told;
    return 1;
}

static int has_not_faulted(void *context, const void *identity, struct hythe_fault *fault)
{
    (void)context;
    (void)identity;
    (void)fault;
    return 0;
}

static void a_task_that_faults_is_ended_and_gives_back_what_it_had(void)
{
    struct hythe_task *task = &fixture.tasks.memory[TASK_A];

    make();
    fixture.tasks.port.fault = has_not_faulted;
    CHECK(hythe_task_begin(task, NULL, 0));
    linux_push(&fixture.tasks.world.side, LINUX_FLOW(OUT2, 0),
               linux_slot(&fixture.tasks.world.side, 0, 1, WORLD_SLOT_BYTES - 256));
    task->identity = &fixture.tasks.configs[TASK_A];
    task->state = TASK_RUNNING;
    CHECK_EQUAL(buffer_call(HYTHE_GATE_LEASE, 1, 0, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_held_count(task), 1);
    hythe_tasks_reap(&fixture.tasks.tasks);
    CHECK_EQUAL(task->state, TASK_RUNNING);
    fixture.tasks.port.fault = has_faulted;
    fixture.tasks.self = TASK_SERVICE;
    hythe_tasks_reap(&fixture.tasks.tasks);
    CHECK_EQUAL(task->state, TASK_FAULTED);
    CHECK_EQUAL(task->fault.kind, HYTHE_FAULT_WRITE);
    CHECK_EQUAL(task->fault.address, 0x21300000u);
    CHECK_EQUAL(task->fault.pc, 0x1234u);
    CHECK_EQUAL(task->buffers_returned, 1);
    CHECK_EQUAL(task->kills, 0);
    tasks_expect_nothing_of(&fixture.tasks, TASK_A);
    /* Once, and it can be started again. */
    CHECK_EQUAL(fixture.tasks.kills, 1);
    hythe_tasks_reap(&fixture.tasks.tasks);
    CHECK_EQUAL(fixture.tasks.kills, 1);
    CHECK(hythe_task_begin(task, NULL, 0));
    CHECK_EQUAL(task->fault.kind, HYTHE_FAULT_NONE);
    world_free(&fixture.tasks.world);
}

static void the_agent_is_told_of_a_fault_when_it_can_be(void)
{
    static struct hythe_services services;
    struct hythe_task *task = &fixture.tasks.memory[TASK_A];
    uint32_t words[HYTHE_CALL_WORDS];
    struct descriptor got;
    const uint8_t *data;

    make();
    fixture.tasks.self = TASK_SERVICE;
    services.client = fixture.tasks.client;
    task->fault_untold = (struct hythe_fault){HYTHE_FAULT_WRITE, 0x21300000u, 0x1234u};
    hythe_tasks_tell_faults(&fixture.tasks.tasks, &services);
    CHECK_EQUAL(task->fault_untold.kind, HYTHE_FAULT_WRITE);
    got = linux_slot(&fixture.tasks.world.side, 0, 1, WORLD_SLOT_BYTES - 256);
    got.references = 1;
    linux_push(&fixture.tasks.world.side, LINUX_FLOW(OUT, 0), got);
    hythe_tasks_tell_faults(&fixture.tasks.tasks, &services);
    CHECK_EQUAL(task->fault_untold.kind, HYTHE_FAULT_NONE);
    CHECK(linux_take(&fixture.tasks.world.side, LINUX_FLOW(OUT, 0), &got));
    CHECK_EQUAL(got.length, HYTHE_CALL_BYTES + 1);
    data = fixture.tasks.world.region_memory + WORLD_SLOT_BYTES + got.offset;
    hythe_call_read(data, words);
    CHECK_EQUAL(words[HYTHE_CALL_METHOD], HYTHE_METHOD_TASK_EVENT);
    CHECK_EQUAL(words[HYTHE_CALL_TASK], TASK_A + 1);
    CHECK_EQUAL(words[HYTHE_CALL_FLAGS], HYTHE_FAULT_WRITE);
    CHECK_EQUAL(words[HYTHE_CALL_ARGUMENT], 0x21300000u);
    CHECK_EQUAL(words[HYTHE_CALL_ARGUMENT + 1], 0x1234u);
    CHECK_EQUAL(words[HYTHE_CALL_LENGTH], 1);
    CHECK_EQUAL(data[HYTHE_CALL_BYTES], 'a');
    /* Once. */
    hythe_tasks_tell_faults(&fixture.tasks.tasks, &services);
    CHECK(!linux_take(&fixture.tasks.world.side, LINUX_FLOW(OUT, 0), &got));
    world_free(&fixture.tasks.world);
}

static void a_platform_that_cannot_restrict_tasks_refuses_them(void)
{
    struct hythe_tasks_config config;

    make();
    config = fixture.tasks.tasks.config;
    CHECK(fixture.tasks.port.fault == NULL);
    CHECK_EQUAL(hythe_tasks_start(&fixture.tasks.tasks, &config), HYTHE_E_ARGUMENT);
    fixture.tasks.port.fault = has_not_faulted;
    CHECK_EQUAL(hythe_tasks_start(&fixture.tasks.tasks, &config), HYTHE_OK);
    world_free(&fixture.tasks.world);
}

void test_gate(void)
{
    RUN(a_range_is_reached_up_to_each_of_its_edges);
    RUN(two_ranges_are_not_one);
    RUN(a_call_that_the_task_does_not_reach_is_left_alone);
    RUN(the_argument_goes_only_where_the_task_may_write);
    RUN(buffers_are_known_by_their_numbers_alone);
    RUN(messages_stand_only_where_the_task_reaches);
    RUN(a_task_that_faults_is_ended_and_gives_back_what_it_had);
    RUN(the_agent_is_told_of_a_fault_when_it_can_be);
    RUN(a_platform_that_cannot_restrict_tasks_refuses_them);
}
