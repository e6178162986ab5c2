/* Calls both ways: what a core serves and what it calls, and what Linux may lie about. */
#include <string.h>

#include "call.h"
#include "hythe_rpc.h"
#include "test.h"
#include "vectors.h"
#include "world.h"

/* IN serves, OUT calls. */
static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"calls", HYTHE_TO_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {"asks", HYTHE_FROM_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {"in2", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {"out2", HYTHE_FROM_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
};

enum {
    OPEN_MAX = 6,
    BYTES_MAX = 1024 - HYTHE_CALL_BYTES,
    REQUEST = 1,
    REPLY = 2,
    GIVEN_UP = 3,
    DOUBLE = 1,
    FAIL = 2,
    GROW = 3,
    BROKEN = 4
};

struct fixture {
    struct world world;
    struct hythe_client client;
    struct hythe_open_request open[OPEN_MAX];
    uint8_t bytes[WORLD_SLOT_BYTES];
    uint32_t length;
};

static void make(struct fixture *fixture)
{
    struct world *world = &fixture->world;

    world_make(world);
    world->config.endpoints = ENDPOINTS;
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    CHECK_EQUAL(
        hythe_client_start(&fixture->client, world_endpoint(world, OUT), fixture->open, OPEN_MAX),
        HYTHE_OK);
    world_attach(world, LINUX_FLOW(IN, 0));
    world_attach(world, LINUX_FLOW(OUT, 0));
}

static uint8_t *slot_at(struct world *world, uint32_t slot, uint32_t offset)
{
    return world->region_memory + (size_t)slot * WORLD_SLOT_BYTES + offset;
}

static void write_number(struct world *world, uint32_t slot, uint32_t kind, const uint32_t *number)
{
    uint32_t header[4] = {kind, 0, number[0], number[1]};

    memcpy(slot_at(world, slot, 0), header, sizeof header);
}

static uint32_t kind_of(struct world *world, uint32_t slot)
{
    uint32_t kind;

    memcpy(&kind, slot_at(world, slot, 0), sizeof kind);
    return kind;
}

/* ---- The bytes ---- */

static void headers_are_those_of_the_page(void)
{
    static const char *const calls[8] = {"method",     "task",       "timeout_ms", "flags",
                                         "argument.0", "argument.1", "argument.2", "bytes"};
    static const char *const replies[8] = {"method",  "result",  "value.0", "value.1",
                                           "value.2", "value.3", "value.4", "bytes"};
    static struct vectors vectors;
    char group[VECTOR_TEXT_MAX] = "";
    unsigned cases = 0;
    size_t i;
    uint32_t word;

    CHECK(vectors_read(&vectors, "services.txt"));
    for (i = 0; i < vectors.count; i++) {
        uint32_t words[HYTHE_CALL_WORDS];
        uint8_t expected[HYTHE_CALL_BYTES];
        uint8_t written[HYTHE_CALL_BYTES + 1];
        int is_call = strncmp(vectors.line[i].group, "call.", 5) == 0;
        if (strcmp(vectors.line[i].group, group) == 0 ||
            (!is_call && strncmp(vectors.line[i].group, "reply.", 6) != 0)) {
            continue;
        }
        strcpy(group, vectors.line[i].group);
        cases++;
        CHECK_EQUAL(vectors_bytes(vectors_text(&vectors, group, "hex"), expected, sizeof expected),
                    sizeof expected);
        hythe_call_read(expected, words);
        for (word = 0; word < HYTHE_CALL_WORDS; word++) {
            const char *key = (is_call ? calls : replies)[word];
            CHECK_EQUAL(words[word], vectors_number(&vectors, group, key));
        }
        /* At an odd address, too. */
        hythe_call_write(written + 1, words);
        CHECK(memcmp(written + 1, expected, sizeof expected) == 0);
    }
    CHECK_EQUAL(cases, 15);
}

/* ---- Serving ---- */

/* Each byte twice: in place, from the end. */
static int serve_double(void *context, const struct hythe_rpc_request *request,
                        struct hythe_rpc_reply *reply)
{
    uint32_t i;

    CHECK(context == &ENDPOINTS);
    CHECK_EQUAL(request->task, 3);
    CHECK_EQUAL(request->timeout_ms, 500);
    reply->bytes = 2 * request->argument_bytes;
    for (i = reply->bytes; i-- > 0 && reply->bytes <= reply->capacity;) {
        reply->result[i] = request->argument[i / 2];
    }
    return 0;
}

static int serve_fail(void *context, const struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply)
{
    (void)context;
    reply->bytes = 7;
    return (int)request->argument[0] << 23;
}

/* As many bytes as its argument says, which it does not write where they do not fit. */
static int serve_grow(void *context, const struct hythe_rpc_request *request,
                      struct hythe_rpc_reply *reply)
{
    (void)context;
    reply->bytes = (uint32_t)request->argument[0] << 8;
    if (reply->bytes <= reply->capacity) {
        memset(reply->result, 5, reply->bytes);
    }
    return 0;
}

static int serve_broken(void *context, const struct hythe_rpc_request *request,
                        struct hythe_rpc_reply *reply)
{
    (void)context;
    (void)request;
    (void)reply;
    return -5;
}

static const struct hythe_rpc_method TABLE[] = {
    {DOUBLE, serve_double, (void *)&ENDPOINTS},
    {FAIL, serve_fail, NULL},
    {GROW, serve_grow, NULL},
    {BROKEN, serve_broken, NULL},
};

/* A call with these bytes behind the header, in a slot, from any offset on. */
struct call {
    uint32_t slot;
    uint32_t offset;
    uint32_t words[HYTHE_CALL_WORDS];
    const char *argument;
};

static struct call call_of(uint32_t slot, uint32_t method, uint32_t largest, const char *argument)
{
    struct call call = {
        slot, 256, {method, 3, 500, 0, largest, 0, 0, (uint32_t)strlen(argument)}, argument};

    return call;
}

static void push_call(struct fixture *fixture, const struct call *call)
{
    struct world *world = &fixture->world;
    uint32_t length = HYTHE_CALL_BYTES + (uint32_t)strlen(call->argument);
    struct descriptor request = linux_slot(&world->side, 0, call->slot, length);
    uint32_t number[2] = {100 + call->slot, 0};

    request.offset = call->offset;
    write_number(world, call->slot, REQUEST, number);
    hythe_call_write(slot_at(world, call->slot, call->offset), call->words);
    memcpy(slot_at(world, call->slot, call->offset + HYTHE_CALL_BYTES), call->argument,
           strlen(call->argument));
    linux_push(&world->side, LINUX_FLOW(IN, 0), request);
}

static int serve(struct fixture *fixture)
{
    return hythe_rpc_serve(world_endpoint(&fixture->world, IN), TABLE,
                           sizeof TABLE / sizeof TABLE[0], 0);
}

/* Linux takes the reply to this call; its bytes are in the fixture. Returns the result. */
static int32_t take_reply(struct fixture *fixture, const struct call *call, uint32_t *value)
{
    struct world *world = &fixture->world;
    struct descriptor got = {0};
    uint32_t words[HYTHE_CALL_WORDS];

    CHECK(linux_take(&world->side, LINUX_FLOW(IN, 0), &got));
    CHECK_EQUAL(got.place, linux_slot(&world->side, 0, call->slot, 0).place);
    CHECK_EQUAL(kind_of(world, call->slot), REPLY);
    CHECK(got.length >= HYTHE_CALL_BYTES && got.offset == call->offset);
    hythe_call_read(slot_at(world, call->slot, got.offset), words);
    CHECK_EQUAL(words[HYTHE_CALL_METHOD], call->words[HYTHE_CALL_METHOD]);
    fixture->length = got.length - HYTHE_CALL_BYTES;
    CHECK_EQUAL(words[HYTHE_CALL_LENGTH], fixture->length);
    memcpy(fixture->bytes, slot_at(world, call->slot, got.offset + HYTHE_CALL_BYTES),
           fixture->length);
    *value = words[HYTHE_CALL_VALUE];
    return (int32_t)words[HYTHE_CALL_RESULT];
}

static int32_t served(struct fixture *fixture, const struct call *call, uint32_t *value)
{
    push_call(fixture, call);
    CHECK_EQUAL(serve(fixture), HYTHE_OK);
    return take_reply(fixture, call, value);
}

static void a_method_is_served_in_place_and_each_refusal_has_its_own_result(void)
{
    struct fixture fixture;
    struct call call = call_of(1, DOUBLE, 100, "abc");
    uint32_t value;

    make(&fixture);
    CHECK_EQUAL(serve(&fixture), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(served(&fixture, &call, &value), 0);
    CHECK_EQUAL(fixture.length, 6);
    CHECK(memcmp(fixture.bytes, "aabbcc", 6) == 0);
    /* From an odd offset, and without an argument. */
    call = call_of(2, DOUBLE, 100, "xy");
    call.offset = 301;
    CHECK_EQUAL(served(&fixture, &call, &value), 0);
    CHECK(fixture.length == 4 && memcmp(fixture.bytes, "xxyy", 4) == 0);
    call = call_of(2, DOUBLE, 0, "");
    CHECK_EQUAL(served(&fixture, &call, &value), 0);
    CHECK_EQUAL(fixture.length, 0);

    call = call_of(3, 99, 100, "abc");
    CHECK_EQUAL(served(&fixture, &call, &value), HYTHE_CALL_NO_SUCH_METHOD);
    CHECK_EQUAL(fixture.length, 0);
    call = call_of(3, FAIL, 100, "\x01");
    CHECK_EQUAL(served(&fixture, &call, &value), 1 << 23);
    CHECK(fixture.length == 0 && value == 0);
    /* Larger than its caller takes, than the endpoint carries, than the slot holds. */
    call = call_of(4, GROW, 256, "\x01");
    CHECK_EQUAL(served(&fixture, &call, &value), 0);
    CHECK(fixture.length == 256 && fixture.bytes[255] == 5);
    call = call_of(4, GROW, 255, "\x01");
    CHECK_EQUAL(served(&fixture, &call, &value), HYTHE_CALL_TOO_LARGE);
    CHECK(fixture.length == 0 && value == 256);
    call = call_of(4, GROW, 0xFFFFFFFFu, "\x04");
    CHECK_EQUAL(served(&fixture, &call, &value), HYTHE_CALL_TOO_LARGE);
    CHECK_EQUAL(value, 1024);
    call = call_of(4, GROW, 1024, "\x02");
    call.offset = WORLD_SLOT_BYTES - HYTHE_CALL_BYTES - 511;
    CHECK_EQUAL(served(&fixture, &call, &value), HYTHE_CALL_TOO_LARGE);
    CHECK_EQUAL(value, 512);
    call.offset--;
    CHECK_EQUAL(served(&fixture, &call, &value), 0);
    CHECK_EQUAL(world_counters(&fixture.world, IN).held, 0);
    world_free(&fixture.world);
}

static void expect_given_up(struct fixture *fixture, const struct call *call)
{
    struct descriptor got = {0};

    CHECK(linux_take(&fixture->world.side, LINUX_FLOW(IN, 0), &got));
    CHECK_EQUAL(got.place, linux_slot(&fixture->world.side, 0, call->slot, 0).place);
    CHECK_EQUAL(kind_of(&fixture->world, call->slot), GIVEN_UP);
    CHECK_EQUAL(world_counters(&fixture->world, IN).held, 0);
}

static void what_is_no_call_is_given_up(void)
{
    struct fixture fixture;
    struct call call = call_of(1, DOUBLE, 100, "abc");
    uint32_t number[2] = {9, 0};
    uint32_t i;
    static const struct {
        uint32_t word;
        uint32_t value;
    } lies[] = {
        {HYTHE_CALL_METHOD, 0}, {HYTHE_CALL_METHOD, 0x80000000u}, {HYTHE_CALL_LENGTH, 2},
        {HYTHE_CALL_LENGTH, 4}, {HYTHE_CALL_LENGTH, 0xFFFFFFFFu}, {HYTHE_CALL_TIMEOUT, 0xFFFFFFFFu},
    };

    make(&fixture);
    for (i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        call = call_of(i, DOUBLE, 100, "abc");
        call.words[lies[i].word] = lies[i].value;
        push_call(&fixture, &call);
        CHECK_EQUAL(serve(&fixture), HYTHE_E_MALFORMED);
        expect_given_up(&fixture, &call);
        CHECK_EQUAL(world_counters(&fixture.world, IN).violations, i + 1);
    }
    /* Shorter than a header. */
    write_number(&fixture.world, call.slot, REQUEST, number);
    linux_push(&fixture.world.side, LINUX_FLOW(IN, 0),
               linux_slot(&fixture.world.side, 0, call.slot, HYTHE_CALL_BYTES - 1));
    CHECK_EQUAL(serve(&fixture), HYTHE_E_MALFORMED);
    expect_given_up(&fixture, &call);
    /* A method that breaks its word. */
    call = call_of(7, BROKEN, 100, "abc");
    push_call(&fixture, &call);
    CHECK_EQUAL(serve(&fixture), HYTHE_E_ARGUMENT);
    expect_given_up(&fixture, &call);
    CHECK_EQUAL(hythe_rpc_serve(world_endpoint(&fixture.world, IN2), TABLE, 1, 0),
                HYTHE_E_ARGUMENT);
    world_free(&fixture.world);
}

static void calls_are_answered_later_in_any_order_and_a_dead_caller_is_told_apart(void)
{
    enum {
        CALLS = 6
    };
    struct fixture fixture;
    struct hythe_rpc_request request[CALLS];
    struct hythe_rpc_reply reply[CALLS];
    struct call call[CALLS];
    struct hythe_endpoint *calls;
    uint32_t value;
    uint32_t i;

    make(&fixture);
    calls = world_endpoint(&fixture.world, IN);
    for (i = 0; i < CALLS; i++) {
        char argument[2] = {(char)('a' + i), 0};
        call[i] = call_of(i, DOUBLE, 100, argument);
        push_call(&fixture, &call[i]);
        call[i].argument = "";
    }
    for (i = 0; i < CALLS; i++) {
        CHECK_EQUAL(hythe_rpc_receive(calls, &request[i], &reply[i], 0), HYTHE_OK);
        CHECK_EQUAL(request[i].argument[0], 'a' + i);
    }
    for (i = CALLS; i-- > 2;) {
        CHECK_EQUAL(hythe_rpc_answer(&request[i], &reply[i], -1), HYTHE_E_ARGUMENT);
        reply[i].bytes = 1;
        CHECK_EQUAL(hythe_rpc_answer(&request[i], &reply[i], 0), HYTHE_OK);
        CHECK_EQUAL(take_reply(&fixture, &call[i], &value), 0);
        CHECK_EQUAL(fixture.bytes[0], 'a' + i);
        CHECK_EQUAL(hythe_rpc_answer(&request[i], &reply[i], 0), HYTHE_E_ARGUMENT);
    }
    CHECK_EQUAL(hythe_rpc_dispatch(&request[1], &reply[1], TABLE, 4), HYTHE_OK);
    CHECK_EQUAL(take_reply(&fixture, &call[1], &value), 0);
    CHECK_EQUAL(fixture.length, 2);
    linux_detach(&fixture.world.side, LINUX_FLOW(IN, 0));
    CHECK_EQUAL(hythe_rpc_answer(&request[0], &reply[0], 0), HYTHE_STALE);
    CHECK_EQUAL(world_counters(&fixture.world, IN).held, 0);
    world_free(&fixture.world);
}

/* ---- Calling ---- */

/* How Linux answers the next call, while the core waits. */
static struct {
    uint32_t words[HYTHE_CALL_WORDS];
    const char *bytes;
    /* Of the reply's payload; 0: as the header says. */
    uint32_t length;
    struct descriptor call;
    uint32_t taken;
} server;

static void supply(struct fixture *fixture, uint32_t slot)
{
    struct descriptor empty = linux_slot(&fixture->world.side, 0, slot, WORLD_SLOT_BYTES - 256);

    empty.references = 1;
    linux_push(&fixture->world.side, LINUX_FLOW(OUT, 0), empty);
}

/* Passes over the slots that come back. */
static void take_call(struct world *world)
{
    do {
        server.taken = (uint32_t)linux_take(&world->side, LINUX_FLOW(OUT, 0), &server.call);
    } while (server.taken && server.call.length == LINUX_UNUSED);
}

/* Replies with the words and bytes of the server, in the call's slot. */
static void reply_to(struct world *world, struct descriptor call)
{
    uint32_t slot = call.place & 0xFFFFFFu;

    write_number(world, slot, REPLY, call.tag);
    hythe_call_write(slot_at(world, slot, call.offset), server.words);
    memcpy(slot_at(world, slot, call.offset + HYTHE_CALL_BYTES), server.bytes,
           strlen(server.bytes));
    call.length =
        server.length != 0 ? server.length : HYTHE_CALL_BYTES + (uint32_t)strlen(server.bytes);
    linux_push(&world->side, LINUX_FLOW(OUT, 0), call);
}

static void take_and_reply(struct world *world)
{
    take_call(world);
    if (server.taken) {
        reply_to(world, server.call);
    }
}

static void take_and_leave(struct world *world)
{
    take_call(world);
    linux_detach(&world->side, LINUX_FLOW(OUT, 0));
}

static void will_reply(int32_t result, uint32_t value, const char *bytes)
{
    memset(&server, 0, sizeof server);
    server.words[HYTHE_CALL_METHOD] = DOUBLE;
    server.words[HYTHE_CALL_RESULT] = (uint32_t)result;
    server.words[HYTHE_CALL_VALUE] = value;
    server.words[HYTHE_CALL_LENGTH] = (uint32_t)strlen(bytes);
    server.bytes = bytes;
}

/* One call of "abc", with space for 4 bytes of result. */
static int call_once(struct fixture *fixture, uint32_t slot)
{
    supply(fixture, slot);
    memset(fixture->bytes, 0, sizeof fixture->bytes);
    return hythe_rpc_call(&fixture->client, DOUBLE, "abc", 3, fixture->bytes, 4, &fixture->length,
                          200);
}

static void a_call_is_answered_or_ends_with_its_own_code(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;

    make(&fixture);
    world->during_wait = take_and_reply;
    will_reply(0, 0, "four");
    CHECK_EQUAL(call_once(&fixture, 1), HYTHE_OK);
    CHECK(fixture.length == 4 && memcmp(fixture.bytes, "four", 5) == 0);
    will_reply(0, 0, "");
    CHECK_EQUAL(call_once(&fixture, 1), HYTHE_OK);
    CHECK_EQUAL(fixture.length, 0);

    will_reply(HYTHE_CALL_NO_SUCH_METHOD, 0, "");
    CHECK_EQUAL(call_once(&fixture, 2), HYTHE_E_METHOD);
    will_reply(HYTHE_CALL_TOO_LARGE, 70000, "");
    CHECK_EQUAL(call_once(&fixture, 3), HYTHE_E_RESULT);
    CHECK_EQUAL(fixture.length, 70000);
    /* A server that does not look at what the caller takes. */
    will_reply(0, 0, "fives");
    CHECK_EQUAL(call_once(&fixture, 3), HYTHE_E_RESULT);
    CHECK(fixture.length == 5 && fixture.bytes[0] == 0);
    will_reply(2147483647, 0, "ignored");
    CHECK_EQUAL(call_once(&fixture, 4), HYTHE_E_FAILED);
    CHECK_EQUAL(fixture.length, 2147483647);
    world->during_wait = NULL;
    CHECK_EQUAL(hythe_rpc_call(&fixture.client, DOUBLE, NULL, 0, NULL, 0, &fixture.length, 30),
                HYTHE_E_TIMEOUT);
    world->during_wait = take_and_leave;
    CHECK_EQUAL(call_once(&fixture, 5), HYTHE_E_LOST);
    CHECK_EQUAL(server.taken, 1);
    CHECK_EQUAL(hythe_rpc_call(&fixture.client, DOUBLE, NULL, 0, NULL, 0, &fixture.length, 30),
                HYTHE_E_DETACHED);
    CHECK_EQUAL(world_counters(world, OUT).held, 0);
    CHECK_EQUAL(world_counters(world, OUT).violations, 0);
    world_free(world);
}

static void a_call_says_what_its_caller_waits_and_takes(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;
    uint32_t words[HYTHE_CALL_WORDS];

    make(&fixture);
    will_reply(0, 0, "");
    world->during_wait = take_call;
    CHECK_EQUAL(call_once(&fixture, 1), HYTHE_E_TIMEOUT);
    hythe_call_read(slot_at(world, 1, 256), words);
    CHECK_EQUAL(words[HYTHE_CALL_METHOD], DOUBLE);
    CHECK_EQUAL(words[HYTHE_CALL_TASK], 0);
    CHECK_EQUAL(words[HYTHE_CALL_TIMEOUT], 200);
    CHECK_EQUAL(words[HYTHE_CALL_FLAGS], 0);
    CHECK_EQUAL(words[HYTHE_CALL_ARGUMENT], 4);
    CHECK_EQUAL(words[HYTHE_CALL_LENGTH], 3);
    CHECK(memcmp(slot_at(world, 1, 256 + HYTHE_CALL_BYTES), "abc", 3) == 0);
    world_free(world);
}

static void a_late_reply_is_dropped_and_counted(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;
    struct descriptor late;

    make(&fixture);
    will_reply(0, 0, "late");
    world->during_wait = NULL;
    CHECK_EQUAL(call_once(&fixture, 1), HYTHE_E_TIMEOUT);
    take_call(world);
    CHECK_EQUAL(server.taken, 1);
    late = server.call;
    reply_to(world, late);
    CHECK_EQUAL(world_counters(world, OUT).dropped, 0);
    world->during_wait = take_and_reply;
    will_reply(0, 0, "soon");
    CHECK_EQUAL(call_once(&fixture, 2), HYTHE_OK);
    CHECK(memcmp(fixture.bytes, "soon", 4) == 0);
    CHECK_EQUAL(world_counters(world, OUT).dropped, 1);
    CHECK_EQUAL(world_counters(world, OUT).violations, 0);
    CHECK_EQUAL(world_counters(world, OUT).held, 0);
    world_free(world);
}

static void what_is_no_reply_to_a_call_is_refused(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;

    make(&fixture);
    world->during_wait = take_and_reply;
    will_reply(0, 0, "four");
    server.words[HYTHE_CALL_LENGTH] = 3;
    CHECK_EQUAL(call_once(&fixture, 1), HYTHE_E_MALFORMED);
    will_reply(0, 0, "four");
    server.words[HYTHE_CALL_LENGTH] = 0xFFFFFFE0u;
    CHECK_EQUAL(call_once(&fixture, 1), HYTHE_E_MALFORMED);
    will_reply(0, 0, "");
    server.length = HYTHE_CALL_BYTES - 1;
    CHECK_EQUAL(call_once(&fixture, 2), HYTHE_E_MALFORMED);
    will_reply(-5, 0, "");
    CHECK_EQUAL(call_once(&fixture, 3), HYTHE_E_MALFORMED);
    CHECK_EQUAL(world_counters(world, OUT).violations, 4);
    CHECK_EQUAL(world_counters(world, OUT).held, 0);
    world_free(world);
}

static void several_calls_are_outstanding_and_read_in_place(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;
    struct descriptor calls[OPEN_MAX];
    struct hythe_rpc_result result;
    struct hythe_buffer buffer;
    uint64_t numbers[OPEN_MAX];
    uint64_t any = 0;
    uint32_t i;

    make(&fixture);
    for (i = 0; i < OPEN_MAX; i++) {
        supply(&fixture, i);
        CHECK_EQUAL(hythe_rpc_lease(&fixture.client, &buffer, 0), HYTHE_OK);
        CHECK_EQUAL(buffer.length, WORLD_SLOT_BYTES - 256 - HYTHE_CALL_BYTES);
        buffer.data[0] = (uint8_t)i;
        CHECK_EQUAL(hythe_rpc_begin(&fixture.client, DOUBLE, &buffer, 1, 1000, &numbers[i]),
                    HYTHE_OK);
        take_call(world);
        calls[i] = server.call;
        CHECK_EQUAL(slot_at(world, i, 256 + HYTHE_CALL_BYTES)[0], i);
    }
    /* One more than there is memory for, too long, no method, and no time-out: all still held. */
    supply(&fixture, i);
    CHECK_EQUAL(hythe_rpc_lease(&fixture.client, &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_rpc_begin(&fixture.client, DOUBLE, &buffer, 1, 1000, &any), HYTHE_E_FULL);
    CHECK_EQUAL(hythe_rpc_begin(&fixture.client, DOUBLE, &buffer, BYTES_MAX + 1, 1000, &any),
                HYTHE_E_LENGTH);
    CHECK_EQUAL(hythe_rpc_begin(&fixture.client, 0, &buffer, 1, 1000, &any), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_rpc_begin(&fixture.client, 0x80000000u, &buffer, 1, 1000, &any),
                HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_rpc_begin(&fixture.client, 1, &buffer, 1, 0xFFFFFFFFu, &any),
                HYTHE_E_ARGUMENT);
    CHECK(buffer.data == slot_at(world, i, 256 + HYTHE_CALL_BYTES));
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    for (i = OPEN_MAX; i-- > 0;) {
        char bytes[2] = {(char)('a' + i), 0};
        will_reply(0, 0, bytes);
        reply_to(world, calls[i]);
        any = 0;
        CHECK_EQUAL(hythe_rpc_wait(&fixture.client, i % 2 ? &any : &numbers[i], &result, 0),
                    HYTHE_OK);
        CHECK(i % 2 == 0 || any == numbers[i]);
        CHECK(result.bytes == 1 && result.data == slot_at(world, i, 256 + HYTHE_CALL_BYTES));
        CHECK_EQUAL(result.data[0], 'a' + i);
        CHECK_EQUAL(hythe_release(&result.buffer), HYTHE_OK);
        CHECK_EQUAL(hythe_rpc_wait(&fixture.client, &numbers[i], &result, 0), HYTHE_E_ARGUMENT);
    }
    CHECK_EQUAL(world_counters(world, OUT).held, 0);
    world_free(world);
}

void test_rpc(void)
{
    RUN(headers_are_those_of_the_page);
    RUN(a_method_is_served_in_place_and_each_refusal_has_its_own_result);
    RUN(what_is_no_call_is_given_up);
    RUN(calls_are_answered_later_in_any_order_and_a_dead_caller_is_told_apart);
    RUN(a_call_is_answered_or_ends_with_its_own_code);
    RUN(a_call_says_what_its_caller_waits_and_takes);
    RUN(a_late_reply_is_dropped_and_counted);
    RUN(what_is_no_reply_to_a_call_is_refused);
    RUN(several_calls_are_outstanding_and_read_in_place);
}
