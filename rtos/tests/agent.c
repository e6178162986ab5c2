/* The agent of the tests: takes calls of the core and answers them as it was told. See agent.h. */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"calls", HYTHE_TO_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {HYTHE_SERVICES_ENDPOINT, HYTHE_FROM_CORE, HYTHE_SERVICES_BYTES, HYTHE_SERVICES_TYPE, 0,
     HYTHE_KIND_REQUESTS},
    {"in2", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {HYTHE_MESSAGES_ENDPOINT, HYTHE_FROM_CORE, HYTHE_SERVICES_BYTES, HYTHE_SERVICES_TYPE, 0,
     HYTHE_KIND_REQUESTS},
};

struct agent agent;

struct hythe_services_config config_of(struct fixture *fixture)
{
    struct hythe_services_config config = {
        .endpoint = world_endpoint(&fixture->world, OUT),
        .requests = fixture->open,
        .request_count = OPEN_MAX,
        .segments = fixture->area,
        .segments_bytes = (size_t)PAGE * PAGES,
        .messages = world_endpoint(&fixture->world, OUT2),
        .message_requests = fixture->open_messages,
        .message_request_count = OPEN_MAX,
        .timeout_ms = WAIT_MS,
    };

    return config;
}

void fixture_make(struct fixture *fixture)
{
    struct world *world = &fixture->world;
    struct hythe_services_config config;

    world_make(world);
    world->config.endpoints = ENDPOINTS;
    linux_publish(&world->side);
    CHECK_EQUAL(hythe_link_start(&world->link, &world->config), HYTHE_OK);
    fixture->area = aligned_alloc(PAGE, (size_t)PAGE * PAGES);
    config = config_of(fixture);
    CHECK_EQUAL(hythe_services_start(&fixture->services, &config), 0);
    world_attach(world, LINUX_FLOW(OUT, 0));
    world_attach(world, LINUX_FLOW(OUT2, 0));
}

void fixture_free(struct fixture *fixture)
{
    CHECK_EQUAL(world_counters(&fixture->world, OUT).held, 0);
    CHECK_EQUAL(world_counters(&fixture->world, OUT2).held, 0);
    free(fixture->area);
    world_free(&fixture->world);
}

static uint8_t *at(struct world *world, const struct descriptor *slot, uint32_t offset)
{
    return world->region_memory + (size_t)(slot->place & 0xFFFFFFu) * WORLD_SLOT_BYTES + offset;
}

void supply(struct fixture *fixture, uint32_t endpoint)
{
    static uint32_t slot;
    struct descriptor empty =
        linux_slot(&fixture->world.side, 0, slot++ % 8, WORLD_SLOT_BYTES - 256);

    empty.references = 1;
    linux_push(&fixture->world.side, LINUX_FLOW(endpoint, 0), empty);
}

/* Reads a call. 0: it wants no answer. */
static int take(struct world *world, uint32_t endpoint, const struct descriptor *call)
{
    uint32_t words[HYTHE_CALL_WORDS];
    uint32_t bytes;

    hythe_call_read(at(world, call, call->offset), words);
    if (words[0] == HYTHE_METHOD_MQ_TAKEN || words[0] == HYTHE_METHOD_TASK_ENDED) {
        memcpy(agent.told, words, sizeof words);
        agent.told_count++;
        return 0;
    }
    memmove(agent.came[1], agent.came[0], sizeof agent.came - sizeof agent.came[0]);
    memcpy(agent.came[0], words, sizeof words);
    bytes = call->length - HYTHE_CALL_BYTES;
    memcpy(agent.payload, at(world, call, call->offset + HYTHE_CALL_BYTES),
           bytes < sizeof agent.payload ? bytes : sizeof agent.payload);
    agent.endpoint = endpoint;
    agent.count++;
    return 1;
}

static void reply(struct world *world, uint32_t endpoint, struct descriptor call)
{
    uint32_t refused[HYTHE_CALL_WORDS] = {0};
    uint32_t header[4];
    uint32_t words[HYTHE_CALL_WORDS];
    uint32_t bytes = agent.byte_count;

    memcpy(words, agent.words, sizeof words);
    if (agent.refuses != 0) {
        agent.refuses--;
        memcpy(words, refused, sizeof words);
        words[HYTHE_CALL_RESULT] = (uint32_t)-HYTHE_EAGAIN;
        bytes = 0;
    } else if (agent.left == 0) {
        return;
    } else {
        agent.left--;
    }
    words[HYTHE_CALL_METHOD] += words[HYTHE_CALL_METHOD] != 0 ? 0 : agent.came[0][0];
    words[HYTHE_CALL_LENGTH] += bytes;
    header[0] = agent.kind;
    header[1] = 0;
    memcpy(header + 2, call.tag, 8);
    memcpy(at(world, &call, 0), header, sizeof header);
    hythe_call_write(at(world, &call, call.offset), words);
    memcpy(at(world, &call, call.offset + HYTHE_CALL_BYTES), agent.bytes, bytes);
    call.length = agent.kind == GIVEN_UP ? 0 : HYTHE_CALL_BYTES + bytes;
    linux_push(&world->side, LINUX_FLOW(endpoint, 0), call);
}

void agent_answer(struct world *world)
{
    static const uint32_t endpoints[] = {OUT, OUT2};
    struct descriptor call;
    uint32_t i;

    for (i = 0; i < 2; i++) {
        while (linux_take(&world->side, LINUX_FLOW(endpoints[i], 0), &call)) {
            if (call.length != LINUX_UNUSED && take(world, endpoints[i], &call)) {
                reply(world, endpoints[i], call);
            }
        }
    }
}

void will(struct fixture *fixture, int32_t result, uint32_t first, uint32_t second, uint32_t third)
{
    memset(&agent, 0, sizeof agent);
    agent.words[HYTHE_CALL_RESULT] = (uint32_t)result;
    agent.words[HYTHE_CALL_VALUE] = first;
    agent.words[HYTHE_CALL_VALUE + 1] = second;
    agent.words[HYTHE_CALL_VALUE + 2] = third;
    agent.kind = REPLY;
    agent.left = 4;
    fixture->world.during_wait = agent_answer;
    supply(fixture, OUT);
}

uint32_t violations(struct fixture *fixture)
{
    return world_counters(&fixture->world, OUT).violations;
}
