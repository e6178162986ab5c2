/* Requests of the core and the replies of Linux servers, and of ones that lie. */
#include <string.h>

#include "test.h"
#include "world.h"

/* OUT asks here; each port of it is a server. */
static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"in", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {"query", HYTHE_FROM_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {"in2", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_REQUESTS},
    {"out2", HYTHE_FROM_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
};

enum {
    OPEN_MAX = 4,
    SERVER = OUT,
    OTHER = LINUX_FLOW(OUT, 1)
};

struct fixture {
    struct world world;
    struct hythe_client client;
    struct hythe_open_request open[OPEN_MAX];
    struct hythe_buffer buffer;
    uint64_t number;
};

static void make(struct fixture *fixture, uint32_t servers)
{
    struct world *world = &fixture->world;
    uint32_t port;

    world_make(world);
    world->config.endpoints = ENDPOINTS;
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    CHECK_EQUAL(
        hythe_client_start(&fixture->client, world_endpoint(world, OUT), fixture->open, OPEN_MAX),
        HYTHE_OK);
    for (port = 0; port < servers; port++) {
        world_attach(world, LINUX_FLOW(OUT, port));
    }
    fixture->buffer.endpoint = NULL;
}

static uint32_t *header(struct fixture *fixture, uint32_t slot)
{
    return (uint32_t *)(void *)(fixture->world.region_memory + (size_t)slot * WORLD_SLOT_BYTES);
}

static struct descriptor empty_slot(struct fixture *fixture, uint32_t slot)
{
    struct descriptor empty = linux_slot(&fixture->world.side, 0, slot, WORLD_SLOT_BYTES - 256);

    empty.references = 1;
    return empty;
}

static void supply(struct fixture *fixture, uint32_t flow, uint32_t slot)
{
    linux_push(&fixture->world.side, flow, empty_slot(fixture, slot));
}

/* Leases the slot that comes next, sends a request of `length` bytes, and returns its number. */
static uint64_t ask(struct fixture *fixture, uint32_t length)
{
    struct hythe_buffer *buffer = &fixture->buffer;

    fixture->number = 0;
    CHECK_EQUAL(hythe_request_lease(&fixture->client, buffer, 0), HYTHE_OK);
    memset(buffer->data, (int)length & 0xFF, length);
    CHECK_EQUAL(hythe_request_send(&fixture->client, buffer, length, &fixture->number), HYTHE_OK);
    CHECK(buffer->endpoint == NULL);
    return fixture->number;
}

/* Linux takes the request with this number, in this slot. */
static struct descriptor expect_request(struct fixture *fixture, uint32_t flow, uint64_t number,
                                        uint32_t slot, uint32_t length)
{
    struct descriptor got = {0};

    CHECK(linux_take(&fixture->world.side, flow, &got));
    CHECK_EQUAL(got.place, empty_slot(fixture, slot).place);
    CHECK_EQUAL(got.length, length);
    CHECK_EQUAL(got.references, 1);
    CHECK_EQUAL(got.account, 3);
    CHECK_EQUAL(got.tag[0], (uint32_t)number);
    CHECK_EQUAL(got.tag[1], (uint32_t)(number >> 32));
    CHECK_EQUAL(header(fixture, slot)[0], 1);
    CHECK_EQUAL(header(fixture, slot)[1], 0);
    CHECK_EQUAL(header(fixture, slot)[2], (uint32_t)number);
    CHECK_EQUAL(header(fixture, slot)[3], (uint32_t)(number >> 32));
    return got;
}

/* Linux answers with `length` bytes in this slot. */
static void reply_in(struct fixture *fixture, uint32_t flow, uint64_t number, uint32_t kind,
                     struct descriptor reply)
{
    uint32_t slot = reply.place & 0xFFFFFFu;

    header(fixture, slot)[0] = kind;
    header(fixture, slot)[2] = (uint32_t)number;
    header(fixture, slot)[3] = (uint32_t)(number >> 32);
    reply.tag[0] = (uint32_t)number;
    reply.tag[1] = (uint32_t)(number >> 32);
    linux_push(&fixture->world.side, flow, reply);
}

static struct descriptor reply_of(struct fixture *fixture, uint32_t slot, uint32_t length)
{
    struct descriptor reply = empty_slot(fixture, slot);

    reply.length = length;
    return reply;
}

static int wait_for(struct fixture *fixture, uint64_t number, uint32_t timeout_ms)
{
    return hythe_reply_wait(&fixture->client, &number, &fixture->buffer, timeout_ms);
}

/* Linux gets this slot back unread. */
static void expect_unused(struct fixture *fixture, uint32_t flow, uint32_t slot)
{
    struct descriptor got = {0};

    CHECK(linux_take(&fixture->world.side, flow, &got));
    CHECK_EQUAL(got.place, empty_slot(fixture, slot).place);
    CHECK_EQUAL(got.length, LINUX_UNUSED);
    CHECK_EQUAL(got.references, 1);
}

static void a_request_is_answered_where_it_lies_or_elsewhere(void)
{
    struct fixture fixture;
    uint32_t where;

    make(&fixture, 1);
    for (where = 0; where < 2; where++) {
        uint32_t slot = 5 + where;
        uint64_t number;
        supply(&fixture, SERVER, 5);
        number = ask(&fixture, 100 * where);
        CHECK(number != 0);
        (void)expect_request(&fixture, SERVER, number, 5, 100 * where);
        CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_E_TIMEOUT);
        memset(fixture.world.region_memory + slot * WORLD_SLOT_BYTES + 256, 7, 1024);
        reply_in(&fixture, SERVER, number, 2, reply_of(&fixture, slot, 1024));
        CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_OK);
        CHECK_EQUAL(fixture.buffer.length, 1024);
        CHECK_EQUAL(fixture.buffer.data[1023], 7);
        /* It is over. */
        CHECK_EQUAL(hythe_request_forget(&fixture.client, number), HYTHE_E_ARGUMENT);
        CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
        expect_unused(&fixture, SERVER, slot);
    }
    CHECK_EQUAL(world_counters(&fixture.world, OUT).published, 2);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).returned, 2);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).held, 0);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 0);
    world_free(&fixture.world);
}

static void replies_come_in_any_order_between_empty_slots(void)
{
    struct fixture fixture;
    uint64_t numbers[3];
    uint64_t any = 0;
    uint32_t i;

    make(&fixture, 1);
    for (i = 0; i < 3; i++) {
        supply(&fixture, SERVER, i);
    }
    for (i = 0; i < 3; i++) {
        numbers[i] = ask(&fixture, 10 + i);
        (void)expect_request(&fixture, SERVER, numbers[i], i, 10 + i);
        CHECK(i == 0 || numbers[i] != numbers[i - 1]);
    }
    supply(&fixture, SERVER, 3);
    reply_in(&fixture, SERVER, numbers[2], 2, reply_of(&fixture, 2, 12));
    supply(&fixture, SERVER, 4);
    reply_in(&fixture, SERVER, numbers[0], 2, reply_of(&fixture, 0, 10));
    CHECK_EQUAL(wait_for(&fixture, numbers[0], 0), HYTHE_OK);
    CHECK_EQUAL(fixture.buffer.length, 10);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    CHECK_EQUAL(wait_for(&fixture, numbers[1], 0), HYTHE_E_TIMEOUT);
    /* Whichever is over first. */
    CHECK_EQUAL(hythe_reply_wait(&fixture.client, &any, &fixture.buffer, 0), HYTHE_OK);
    CHECK(any == numbers[2]);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    any = 0;
    CHECK_EQUAL(hythe_reply_wait(&fixture.client, &any, &fixture.buffer, 0), HYTHE_E_TIMEOUT);
    CHECK(any == 0);
    /* The head stands before the first empty slot, and passes replies with it. */
    CHECK_EQUAL(load(core_flow(&fixture.world.side, SERVER, 12)), 3);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_OK);
    CHECK_EQUAL(fixture.buffer.words[0] & 0xFFFFFFu, 3);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_OK);
    CHECK_EQUAL(fixture.buffer.words[0] & 0xFFFFFFu, 4);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    CHECK_EQUAL(wait_for(&fixture, numbers[1], 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(load(core_flow(&fixture.world.side, SERVER, 12)), 7);
    world_free(&fixture.world);
}

static void servers_are_asked_in_turn_and_a_busy_one_is_not(void)
{
    struct fixture fixture;
    struct hythe_buffer empty[3];

    make(&fixture, 3);
    supply(&fixture, SERVER, 0);
    supply(&fixture, SERVER, 1);
    supply(&fixture, OTHER, 2);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &empty[0], 0), HYTHE_OK);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &empty[1], 0), HYTHE_OK);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &empty[2], 0), HYTHE_OK);
    CHECK_EQUAL(empty[0].port, 0);
    CHECK_EQUAL(empty[1].port, 1);
    CHECK_EQUAL(empty[2].port, 0);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 25), HYTHE_E_TIMEOUT);
    CHECK(fixture.world.waits > 0);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &empty[1], 4, &fixture.number), HYTHE_OK);
    (void)expect_request(&fixture, OTHER, fixture.number, 2, 4);
    CHECK_EQUAL(hythe_release(&empty[0]), HYTHE_OK);
    expect_unused(&fixture, SERVER, 0);
    /* A reply from another server than the one that was asked is none. */
    reply_in(&fixture, SERVER, fixture.number, 2, reply_of(&fixture, 2, 4));
    CHECK_EQUAL(wait_for(&fixture, fixture.number, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 1);
    expect_unused(&fixture, SERVER, 2);
    CHECK_EQUAL(hythe_release(&empty[2]), HYTHE_OK);
    world_free(&fixture.world);
}

static void a_request_that_gets_no_reply_ends_with_its_own_code(void)
{
    struct fixture fixture;
    uint64_t given_up;
    uint64_t lost;
    uint64_t other;
    uint64_t replied;

    make(&fixture, 0);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_E_DETACHED);
    world_attach(&fixture.world, SERVER);
    supply(&fixture, SERVER, 0);
    supply(&fixture, SERVER, 1);
    supply(&fixture, SERVER, 2);
    given_up = ask(&fixture, 1);
    lost = ask(&fixture, 1);
    replied = ask(&fixture, 1);
    (void)expect_request(&fixture, SERVER, given_up, 0, 1);
    reply_in(&fixture, SERVER, given_up, 3, reply_of(&fixture, 0, 0));
    CHECK_EQUAL(wait_for(&fixture, given_up, 0), HYTHE_E_GIVEN_UP);
    CHECK(fixture.buffer.endpoint == NULL);
    CHECK_EQUAL(wait_for(&fixture, given_up, 0), HYTHE_E_ARGUMENT);
    world_attach(&fixture.world, OTHER);
    supply(&fixture, OTHER, 7);
    other = ask(&fixture, 1);
    /* The first server goes; a reply that has come and was not taken goes with it. */
    reply_in(&fixture, SERVER, replied, 2, reply_of(&fixture, 2, 1));
    CHECK_EQUAL(wait_for(&fixture, other, 0), HYTHE_E_TIMEOUT);
    linux_detach(&fixture.world.side, SERVER);
    CHECK_EQUAL(wait_for(&fixture, lost, 0), HYTHE_E_LOST);
    CHECK_EQUAL(wait_for(&fixture, lost, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(wait_for(&fixture, replied, 0), HYTHE_E_LOST);
    CHECK_EQUAL(wait_for(&fixture, other, 0), HYTHE_E_TIMEOUT);
    reply_in(&fixture, OTHER, other, 2, reply_of(&fixture, 7, 3));
    CHECK_EQUAL(wait_for(&fixture, other, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    CHECK_EQUAL(wait_for(&fixture, 0, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 0);
    world_free(&fixture.world);
}

static void a_new_session_knows_nothing_of_the_requests_of_the_old_one(void)
{
    struct fixture fixture;
    uint64_t lost;

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    lost = ask(&fixture, 1);
    /* Between two looks of the core the server has gone and come again. */
    linux_detach(&fixture.world.side, SERVER);
    world_attach(&fixture.world, SERVER);
    reply_in(&fixture, SERVER, lost, 2, reply_of(&fixture, 0, 1));
    CHECK_EQUAL(wait_for(&fixture, lost, 0), HYTHE_E_LOST);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 1);
    expect_unused(&fixture, SERVER, 0);
    /* A new agent: all servers are gone. */
    supply(&fixture, SERVER, 1);
    lost = ask(&fixture, 1);
    linux_publish(&fixture.world.side);
    CHECK_EQUAL(wait_for(&fixture, lost, 0), HYTHE_E_LOST);
    /* And a leased slot whose server has gone is sent to nobody. */
    world_attach(&fixture.world, SERVER);
    supply(&fixture, SERVER, 2);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_OK);
    linux_detach(&fixture.world.side, SERVER);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &fixture.buffer, 4, &fixture.number),
                HYTHE_STALE);
    CHECK_EQUAL(wait_for(&fixture, fixture.number, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).held, 0);
    world_free(&fixture.world);
}

static void a_forgotten_request_costs_nothing_but_its_reply(void)
{
    struct fixture fixture;
    struct hythe_buffer request;
    uint64_t numbers[2];

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    supply(&fixture, SERVER, 1);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &request, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_call(&fixture.client, &request, 8, &fixture.buffer, 30), HYTHE_E_TIMEOUT);
    numbers[0] = fixture.client.last_number | (uint64_t)fixture.world.link.session << 32;
    (void)expect_request(&fixture, SERVER, numbers[0], 0, 8);
    CHECK_EQUAL(wait_for(&fixture, numbers[0], 0), HYTHE_E_ARGUMENT);
    numbers[1] = ask(&fixture, 8);
    reply_in(&fixture, SERVER, numbers[1], 2, reply_of(&fixture, 1, 8));
    CHECK_EQUAL(hythe_link_service(&fixture.world.link), HYTHE_OK);
    /* One that has come, and one that comes late. */
    CHECK_EQUAL(wait_for(&fixture, 0, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    reply_in(&fixture, SERVER, numbers[0], 2, reply_of(&fixture, 0, 8));
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).dropped, 1);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 0);
    /* Once is late, twice is a lie. */
    reply_in(&fixture, SERVER, numbers[0], 2, reply_of(&fixture, 0, 8));
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 1);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).held, 0);
    world_free(&fixture.world);
}

/* A reply of an earlier session is not taken for one that is awaited no more in this one. */
static void what_was_forgotten_ends_with_its_session(void)
{
    struct fixture fixture;
    uint64_t number;

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    number = ask(&fixture, 1);
    CHECK_EQUAL(hythe_request_forget(&fixture.client, number), HYTHE_OK);
    world_attach(&fixture.world, SERVER);
    reply_in(&fixture, SERVER, number, 2, reply_of(&fixture, 0, 1));
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).dropped, 0);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 1);
    world_free(&fixture.world);
}

static void a_doubled_reply_is_a_violation_and_goes_back(void)
{
    struct fixture fixture;
    struct descriptor got;
    uint64_t numbers[2];

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    supply(&fixture, SERVER, 1);
    numbers[0] = ask(&fixture, 1);
    numbers[1] = ask(&fixture, 1);
    CHECK(linux_take(&fixture.world.side, SERVER, &got));
    CHECK(linux_take(&fixture.world.side, SERVER, &got));
    reply_in(&fixture, SERVER, numbers[0], 2, reply_of(&fixture, 0, 1));
    reply_in(&fixture, SERVER, numbers[0], 2, reply_of(&fixture, 2, 1));
    CHECK_EQUAL(wait_for(&fixture, numbers[1], 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 1);
    expect_unused(&fixture, SERVER, 2);
    CHECK_EQUAL(wait_for(&fixture, numbers[0], 0), HYTHE_OK);
    CHECK_EQUAL(fixture.buffer.words[0], empty_slot(&fixture, 0).place);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    world_free(&fixture.world);
}

static void a_reply_that_came_and_is_forgotten_goes_back(void)
{
    struct fixture fixture;
    uint64_t numbers[2];
    struct descriptor got;

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    supply(&fixture, SERVER, 1);
    numbers[0] = ask(&fixture, 1);
    numbers[1] = ask(&fixture, 1);
    CHECK(linux_take(&fixture.world.side, SERVER, &got));
    CHECK(linux_take(&fixture.world.side, SERVER, &got));
    reply_in(&fixture, SERVER, numbers[0], 2, reply_of(&fixture, 0, 1));
    CHECK_EQUAL(wait_for(&fixture, numbers[1], 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(hythe_request_forget(&fixture.client, numbers[0]), HYTHE_OK);
    expect_unused(&fixture, SERVER, 0);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).dropped, 1);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).held, 0);
    world_free(&fixture.world);
}

static void as_many_are_open_as_there_is_memory_for(void)
{
    struct fixture fixture;
    uint64_t first = 0;
    uint32_t i;

    make(&fixture, 1);
    for (i = 0; i <= OPEN_MAX; i++) {
        supply(&fixture, SERVER, i);
    }
    for (i = 0; i < OPEN_MAX; i++) {
        uint64_t number = ask(&fixture, 1);
        first = i == 0 ? number : first;
    }
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &fixture.buffer, 1, &fixture.number),
                HYTHE_E_FULL);
    CHECK(fixture.buffer.endpoint != NULL);
    CHECK_EQUAL(hythe_request_forget(&fixture.client, first), HYTHE_OK);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &fixture.buffer, 1025, &fixture.number),
                HYTHE_E_LENGTH);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &fixture.buffer, UINT32_MAX, &fixture.number),
                HYTHE_E_LENGTH);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &fixture.buffer, 1024, &fixture.number),
                HYTHE_OK);
    world_free(&fixture.world);
}

/* A slot that goes round while empty ones stand before it takes no place in the queue for ever. */
static void the_queue_goes_round_many_times(void)
{
    struct fixture fixture;
    uint32_t round;

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    supply(&fixture, SERVER, 1);
    for (round = 0; round < 100; round++) {
        uint32_t slot = round % 2;
        uint64_t number = ask(&fixture, 1 + round % 50);
        (void)expect_request(&fixture, SERVER, number, slot, 1 + round % 50);
        reply_in(&fixture, SERVER, number, 2, reply_of(&fixture, slot, round));
        CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_OK);
        CHECK_EQUAL(fixture.buffer.length, round);
        CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
        expect_unused(&fixture, SERVER, slot);
        supply(&fixture, SERVER, slot);
        CHECK(fixture.world.side.tail[SERVER] - load(core_flow(&fixture.world.side, SERVER, 12)) <=
              4);
    }
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 0);
    world_free(&fixture.world);
}

static void a_server_that_lies_gets_no_request_answered(void)
{
    struct fixture fixture;
    struct descriptor reply;
    uint64_t number;
    uint32_t lie;

    make(&fixture, 1);
    supply(&fixture, SERVER, 9);
    number = ask(&fixture, 1);
    (void)expect_request(&fixture, SERVER, number, 9, 1);
    for (lie = 0; lie < 8; lie++) {
        struct descriptor got;
        reply = reply_of(&fixture, 9, 1);
        reply.length = lie == 0 ? 1025 : reply.length;
        reply.length = lie == 1 ? WORLD_SLOT_BYTES : reply.length;
        reply.place = lie == 2 ? 0 : reply.place;
        reply.references = lie == 3 ? 0 : reply.references;
        reply_in(&fixture, SERVER, number + (lie == 4), lie == 5 ? 1 : 2, reply);
        header(&fixture, 9)[2] += lie == 6;
        header(&fixture, 9)[3] += lie == 7;
        CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_E_TIMEOUT);
        CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, lie + 1);
        /* What can be named at all goes back. */
        CHECK_EQUAL(linux_take(&fixture.world.side, SERVER, &got), lie == 0 || lie > 3);
    }
    reply_in(&fixture, SERVER, number, 2, reply_of(&fixture, 9, 1));
    CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).held, 0);
    world_free(&fixture.world);
}

static void bad_empty_slots_and_counters_are_violations(void)
{
    struct fixture fixture;
    struct descriptor bad;
    uint64_t number;

    make(&fixture, 2);
    supply(&fixture, SERVER, 0);
    number = ask(&fixture, 1);
    bad = empty_slot(&fixture, 1);
    bad.offset = 8;
    linux_push(&fixture.world.side, SERVER, bad);
    bad.offset = 5000;
    linux_push(&fixture.world.side, SERVER, bad);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_E_TIMEOUT);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 2);
    /* Entries are another thing at the second look than at the first. */
    supply(&fixture, SERVER, 2);
    supply(&fixture, SERVER, 3);
    CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_E_TIMEOUT);
    linux_entry(&fixture.world.side, SERVER, fixture.world.side.tail[SERVER] - 2)[6] = 77;
    CHECK_EQUAL(hythe_request_lease(&fixture.client, &fixture.buffer, 0), HYTHE_OK);
    CHECK_EQUAL(fixture.buffer.words[0] & 0xFFFFFFu, 3);
    CHECK_EQUAL(hythe_release(&fixture.buffer), HYTHE_OK);
    store(linux_flow(&fixture.world.side, SERVER, 8), fixture.world.side.tail[SERVER] + 100);
    CHECK_EQUAL(wait_for(&fixture, number, 0), HYTHE_E_QUARANTINED);
    CHECK_EQUAL(world_counters(&fixture.world, OUT).violations, 3);
    /* The other server is not concerned. */
    supply(&fixture, OTHER, 4);
    (void)ask(&fixture, 5);
    world_free(&fixture.world);
}

static void what_is_for_messages_is_refused(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;
    struct hythe_buffer message;
    struct hythe_buffer *buffer = &fixture.buffer;

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    CHECK_EQUAL(hythe_lease(world_endpoint(world, OUT), buffer, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_request_lease(&fixture.client, buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(buffer, 1, 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_reply(buffer, 1), HYTHE_E_ARGUMENT);
    world_attach(world, IN);
    linux_push(&world->side, IN, linux_slot(&world->side, 0, 5, 8));
    CHECK_EQUAL(hythe_receive(world_endpoint(world, IN), &message, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&message, world_endpoint(world, OUT), 0), HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &message, 1, &fixture.number),
                HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_release(&message), HYTHE_OK);
    CHECK_EQUAL(hythe_request_send(&fixture.client, &message, 1, &fixture.number),
                HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_release(buffer), HYTHE_OK);
    CHECK_EQUAL(hythe_client_start(&fixture.client, world_endpoint(world, IN2), fixture.open, 1),
                HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_client_start(&fixture.client, world_endpoint(world, OUT2), fixture.open, 1),
                HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_client_start(&fixture.client, world_endpoint(world, OUT), fixture.open, 0),
                HYTHE_E_ARGUMENT);
    CHECK_EQUAL(hythe_client_start(&fixture.client, NULL, fixture.open, 1), HYTHE_E_ARGUMENT);
    world_free(world);
}

/* The core was started again: numbers of its earlier life do not come again. */
static void numbers_differ_from_life_to_life(void)
{
    struct fixture fixture;
    uint64_t before;

    make(&fixture, 1);
    supply(&fixture, SERVER, 0);
    before = ask(&fixture, 1);
    world_restart_core(&fixture.world);
    CHECK_EQUAL(hythe_client_start(&fixture.client, world_endpoint(&fixture.world, OUT),
                                   fixture.open, OPEN_MAX),
                HYTHE_OK);
    world_attach(&fixture.world, SERVER);
    supply(&fixture, SERVER, 1);
    CHECK(ask(&fixture, 1) != before);
    world_free(&fixture.world);
}

void test_client(void)
{
    RUN(a_request_is_answered_where_it_lies_or_elsewhere);
    RUN(replies_come_in_any_order_between_empty_slots);
    RUN(servers_are_asked_in_turn_and_a_busy_one_is_not);
    RUN(a_request_that_gets_no_reply_ends_with_its_own_code);
    RUN(a_new_session_knows_nothing_of_the_requests_of_the_old_one);
    RUN(a_forgotten_request_costs_nothing_but_its_reply);
    RUN(what_was_forgotten_ends_with_its_session);
    RUN(a_doubled_reply_is_a_violation_and_goes_back);
    RUN(a_reply_that_came_and_is_forgotten_goes_back);
    RUN(as_many_are_open_as_there_is_memory_for);
    RUN(the_queue_goes_round_many_times);
    RUN(a_server_that_lies_gets_no_request_answered);
    RUN(bad_empty_slots_and_counters_are_violations);
    RUN(what_is_for_messages_is_refused);
    RUN(numbers_differ_from_life_to_life);
}
