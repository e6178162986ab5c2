/*
 * Services of the agent, and segments: what a core asks, what it makes of the answers, and what an
 * agent may lie about.
 */
#include <stdlib.h>
#include <string.h>

#include "hythe_shm.h"
#include "services.h"
#include "test.h"
#include "vectors.h"
#include "world.h"

/* OUT is the endpoint of the services. */
static const struct hythe_endpoint_config ENDPOINTS[WORLD_ENDPOINTS] = {
    {"calls", HYTHE_TO_CORE, 1024, 0, 0, HYTHE_KIND_REQUESTS},
    {HYTHE_SERVICES_ENDPOINT, HYTHE_FROM_CORE, HYTHE_SERVICES_BYTES, HYTHE_SERVICES_TYPE, 0,
     HYTHE_KIND_REQUESTS},
    {"in2", HYTHE_TO_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
    {"out2", HYTHE_FROM_CORE, 4096, 0, 0, HYTHE_KIND_MESSAGES},
};

enum {
    OPEN_MAX = 2,
    PAGE = 4096,
    PAGES = 16,
    REPLY = 2,
    GIVEN_UP = 3,
    WAIT_MS = 200
};

struct fixture {
    struct world world;
    struct hythe_services services;
    struct hythe_open_request open[OPEN_MAX];
    uint8_t *area;
};

/* How the agent answers the next calls, while the core waits. */
static struct {
    /* Of the header; 0 as method: that of the call, as length: what is there. */
    uint32_t words[HYTHE_CALL_WORDS];
    uint8_t bytes[128];
    uint32_t byte_count;
    uint32_t kind;
    /* Calls that are still answered. */
    uint32_t left;
    /* The calls that came: the last one first. */
    uint32_t came[4][HYTHE_CALL_WORDS];
    uint32_t count;
} agent;

static struct hythe_services_config config_of(struct fixture *fixture)
{
    struct hythe_services_config config = {
        .endpoint = world_endpoint(&fixture->world, OUT),
        .requests = fixture->open,
        .request_count = OPEN_MAX,
        .segments = fixture->area,
        .segments_bytes = (size_t)PAGE * PAGES,
    };

    return config;
}

static void make(struct fixture *fixture)
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
}

static void unmake(struct fixture *fixture)
{
    CHECK_EQUAL(world_counters(&fixture->world, OUT).held, 0);
    free(fixture->area);
    world_free(&fixture->world);
}

static uint8_t *at(struct world *world, const struct descriptor *slot, uint32_t offset)
{
    return world->region_memory + (size_t)(slot->place & 0xFFFFFFu) * WORLD_SLOT_BYTES + offset;
}

static void supply(struct fixture *fixture)
{
    static uint32_t slot;
    struct descriptor empty =
        linux_slot(&fixture->world.side, 0, slot++ % 8, WORLD_SLOT_BYTES - 256);

    empty.references = 1;
    linux_push(&fixture->world.side, LINUX_FLOW(OUT, 0), empty);
}

static void answer(struct world *world)
{
    struct descriptor call;
    uint32_t header[4];
    uint32_t words[HYTHE_CALL_WORDS];

    do {
        if (!linux_take(&world->side, LINUX_FLOW(OUT, 0), &call)) {
            return;
        }
    } while (call.length == LINUX_UNUSED);
    memmove(agent.came[1], agent.came[0], sizeof agent.came - sizeof agent.came[0]);
    hythe_call_read(at(world, &call, call.offset), agent.came[0]);
    agent.count++;
    if (agent.left == 0) {
        return;
    }
    agent.left--;
    memcpy(words, agent.words, sizeof words);
    words[HYTHE_CALL_METHOD] += words[HYTHE_CALL_METHOD] != 0 ? 0 : agent.came[0][0];
    words[HYTHE_CALL_LENGTH] += agent.byte_count;
    header[0] = agent.kind;
    header[1] = 0;
    memcpy(header + 2, call.tag, 8);
    memcpy(at(world, &call, 0), header, sizeof header);
    hythe_call_write(at(world, &call, call.offset), words);
    memcpy(at(world, &call, call.offset + HYTHE_CALL_BYTES), agent.bytes, agent.byte_count);
    call.length = agent.kind == GIVEN_UP ? 0 : HYTHE_CALL_BYTES + agent.byte_count;
    linux_push(&world->side, LINUX_FLOW(OUT, 0), call);
}

/* The next call is answered so. */
static void will(struct fixture *fixture, int32_t result, uint32_t first, uint32_t second,
                 uint32_t third)
{
    memset(&agent, 0, sizeof agent);
    agent.words[HYTHE_CALL_RESULT] = (uint32_t)result;
    agent.words[HYTHE_CALL_VALUE] = first;
    agent.words[HYTHE_CALL_VALUE + 1] = second;
    agent.words[HYTHE_CALL_VALUE + 2] = third;
    agent.kind = REPLY;
    agent.left = 4;
    fixture->world.during_wait = answer;
    supply(fixture);
}

static int get(struct fixture *fixture)
{
    return hythe_shmget(&fixture->services, 0x1234, 5000, HYTHE_IPC_CREAT | 0x180u, WAIT_MS);
}

static uint32_t violations(struct fixture *fixture)
{
    return world_counters(&fixture->world, OUT).violations;
}

static void a_start_is_refused_where_it_makes_no_sense(void)
{
    struct fixture fixture;
    struct hythe_services_config config;
    struct hythe_services services;

    make(&fixture);
    config = config_of(&fixture);
    CHECK_EQUAL(hythe_services_start(NULL, &config), -HYTHE_EINVAL);
    CHECK_EQUAL(hythe_services_start(&services, NULL), -HYTHE_EINVAL);
    config.segments = fixture.area + 64;
    CHECK_EQUAL(hythe_services_start(&services, &config), -HYTHE_EINVAL);
    config = config_of(&fixture);
    config.endpoint = world_endpoint(&fixture.world, IN);
    CHECK_EQUAL(hythe_services_start(&services, &config), -HYTHE_EINVAL);
    config = config_of(&fixture);
    config.request_count = 0;
    CHECK_EQUAL(hythe_services_start(&services, &config), -HYTHE_EINVAL);
    config = config_of(&fixture);
    config.segments = NULL;
    config.segments_bytes = 0;
    CHECK_EQUAL(hythe_services_start(&services, &config), 0);
    unmake(&fixture);
}

static void each_call_says_what_is_asked(void)
{
    struct fixture fixture;
    struct hythe_shmid status = {.uid = 7, .gid = 8, .mode = 0640};
    struct hythe_shm shm;

    make(&fixture);
    will(&fixture, 0, 42, 0, 0);
    CHECK_EQUAL(hythe_shmget(&fixture.services, -5, 5000, 0x380u | HYTHE_SHM_DUAL, WAIT_MS), 42);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], HYTHE_METHOD_SHM_GET);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_TIMEOUT], WAIT_MS);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT], (uint32_t)-5);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 5000);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 2], 0x380u);
    will(&fixture, 0, 3, 2 * PAGE, 0);
    CHECK_EQUAL(hythe_shmat(&fixture.services, 42, HYTHE_SHM_RDONLY, &shm, WAIT_MS), 0);
    CHECK(shm.address == fixture.area + 3 * PAGE && shm.bytes == 2 * PAGE);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], HYTHE_SHM_RDONLY);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_shmctl(&fixture.services, 42, HYTHE_IPC_SET, &status, WAIT_MS), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], HYTHE_METHOD_SHM_SET);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_FLAGS], 0640);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 7);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 2], 8);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_shmctl(&fixture.services, 42, HYTHE_IPC_RMID, NULL, WAIT_MS), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], HYTHE_METHOD_SHM_REMOVE);
    CHECK_EQUAL(hythe_shmctl(&fixture.services, 42, 9, &status, WAIT_MS), -HYTHE_EINVAL);
    CHECK_EQUAL(agent.count, 1);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_shmdt(&shm, WAIT_MS), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], HYTHE_METHOD_SHM_DETACH);
    CHECK(agent.came[0][HYTHE_CALL_ARGUMENT] == 42 && shm.address == NULL);
    CHECK_EQUAL(hythe_shmdt(&shm, WAIT_MS), -HYTHE_EINVAL);
    CHECK_EQUAL(violations(&fixture), 0);
    unmake(&fixture);
}

static void a_status_is_that_of_the_page(void)
{
    static struct vectors vectors;
    struct fixture fixture;
    struct hythe_shmid status;

    make(&fixture);
    CHECK(vectors_read(&vectors, "services.txt"));
    will(&fixture, 0, 0, 0, 0);
    agent.byte_count = (uint32_t)vectors_bytes(vectors_text(&vectors, "segment.each_field", "hex"),
                                               agent.bytes, sizeof agent.bytes);
    CHECK_EQUAL(agent.byte_count, 88);
    CHECK_EQUAL(hythe_shmctl(&fixture.services, 42, HYTHE_IPC_STAT, &status, WAIT_MS), 0);
#define FIELD(field, key)                                                                          \
    CHECK_EQUAL(status.field, vectors_number(&vectors, "segment.each_field", key))
    FIELD(key, "key");
    FIELD(uid, "owner");
    FIELD(gid, "group");
    FIELD(cuid, "creator");
    FIELD(cgid, "creator_group");
    FIELD(mode, "mode");
    FIELD(made_on, "made_on");
    FIELD(page, "page");
    FIELD(dtime, "detach_time");
    FIELD(nattch, "attached");
    FIELD(nattch_core, "attached_core");
    FIELD(cpid, "creator_process");
    FIELD(lpid, "last_process");
#undef FIELD
    CHECK_EQUAL(status.size, 0x100000001LL);
    CHECK_EQUAL(status.atime, 0x0102030405060708LL);
    CHECK_EQUAL(status.ctime, 0x7FFFFFFFFFFFFFFFLL);
    CHECK_EQUAL(status.order, 0x1122334455667788LL);
    /* One byte more or less is none. */
    will(&fixture, 0, 0, 0, 0);
    agent.byte_count = 87;
    CHECK_EQUAL(hythe_shmctl(&fixture.services, 42, HYTHE_IPC_STAT, &status, WAIT_MS),
                -HYTHE_EPROTO);
    CHECK_EQUAL(violations(&fixture), 1);
    unmake(&fixture);
}

static void each_end_of_a_call_has_its_number(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;

    make(&fixture);
    will(&fixture, -HYTHE_ENOSPC, 0, 0, 0);
    CHECK_EQUAL(get(&fixture), -HYTHE_ENOSPC);
    will(&fixture, 0, 0, 0, 0);
    agent.kind = GIVEN_UP;
    CHECK_EQUAL(get(&fixture), -HYTHE_EIO);
    will(&fixture, 0, 0, 0, 0);
    agent.left = 0;
    CHECK_EQUAL(get(&fixture), -HYTHE_ETIMEDOUT);
    CHECK_EQUAL(agent.count, 1);
    /* No slot at all. */
    world->during_wait = NULL;
    CHECK_EQUAL(get(&fixture), -HYTHE_ETIMEDOUT);
    CHECK_EQUAL(hythe_shmget(&fixture.services, 1, 1, 0, 0xFFFFFFFFu), -HYTHE_EINVAL);
    linux_detach(&world->side, LINUX_FLOW(OUT, 0));
    CHECK_EQUAL(get(&fixture), -HYTHE_ENOTCONN);
    CHECK_EQUAL(violations(&fixture), 0);
    unmake(&fixture);
}

static void an_agent_that_lies_is_not_believed(void)
{
    static const struct {
        uint32_t page;
        uint32_t low;
        uint32_t high;
    } places[] = {
        {PAGES, 1, 0},
        {0, 0, 0},
        {0, 1, 1},
        {0, PAGES * PAGE + 1, 0},
        {PAGES - 1, PAGE + 1, 0},
        {0xFFFFFFFFu, 1, 0},
        {1, 0xFFFFFFFFu, 0},
        {0x100000u, 1, 0},
    };
    struct fixture fixture;
    struct hythe_shm shm;
    uint32_t i;

    make(&fixture);
    for (i = 0; i < sizeof places / sizeof places[0]; i++) {
        will(&fixture, 0, places[i].page, places[i].low, places[i].high);
        supply(&fixture);
        CHECK_EQUAL(hythe_shmat(&fixture.services, 9, 0, &shm, WAIT_MS), -HYTHE_EPROTO);
        CHECK(shm.address == NULL && shm.bytes == 0);
        /* It is given up again. */
        CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], HYTHE_METHOD_SHM_DETACH);
        CHECK_EQUAL(violations(&fixture), i + 1);
    }
    will(&fixture, 0, PAGES - 1, PAGE, 0);
    CHECK_EQUAL(hythe_shmat(&fixture.services, 9, 0, &shm, WAIT_MS), 0);
    will(&fixture, 0, 0, PAGES * PAGE, 0);
    CHECK_EQUAL(hythe_shmat(&fixture.services, 9, 0, &shm, WAIT_MS), 0);
    /* Another method, another length, no error number, an id that is none. */
    will(&fixture, 0, 1, 0, 0);
    agent.words[HYTHE_CALL_METHOD] = HYTHE_METHOD_SHM_STAT;
    CHECK_EQUAL(get(&fixture), -HYTHE_EPROTO);
    will(&fixture, 0, 1, 0, 0);
    agent.words[HYTHE_CALL_LENGTH] = 1;
    CHECK_EQUAL(get(&fixture), -HYTHE_EPROTO);
    will(&fixture, -4096, 1, 0, 0);
    CHECK_EQUAL(get(&fixture), -HYTHE_EPROTO);
    will(&fixture, 0, 0xFFFFFFFFu, 0, 0);
    CHECK_EQUAL(get(&fixture), -HYTHE_EPROTO);
    will(&fixture, 0, 1, 0, 0);
    agent.byte_count = 4;
    CHECK_EQUAL(get(&fixture), -HYTHE_EPROTO);
    CHECK_EQUAL(violations(&fixture), i + 5);
    unmake(&fixture);
}

static void an_attachment_that_came_too_late_can_be_given_up(void)
{
    struct fixture fixture;
    struct hythe_shm shm;

    make(&fixture);
    will(&fixture, 0, 0, PAGE, 0);
    agent.left = 0;
    CHECK_EQUAL(hythe_shmat(&fixture.services, 9, 0, &shm, WAIT_MS), -HYTHE_ETIMEDOUT);
    CHECK(shm.address == NULL);
    CHECK_EQUAL(hythe_shm_check(&shm, NULL, 0, 0), -HYTHE_EFAULT);
    will(&fixture, 0, 0, 0, 0);
    agent.left = 0;
    CHECK_EQUAL(hythe_shmdt(&shm, WAIT_MS), -HYTHE_ETIMEDOUT);
    will(&fixture, -HYTHE_EINVAL, 0, 0, 0);
    CHECK_EQUAL(hythe_shmdt(&shm, WAIT_MS), -HYTHE_EINVAL);
    CHECK_EQUAL(agent.count, 1);
    /* Then there is nothing any more. */
    CHECK_EQUAL(hythe_shmdt(&shm, WAIT_MS), -HYTHE_EINVAL);
    CHECK_EQUAL(agent.count, 1);
    unmake(&fixture);
}

static void a_range_is_inside_or_refused(void)
{
    static uint8_t bytes[100];
    struct hythe_shm shm = {.address = bytes + 10, .bytes = 50};

    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 10, 50, 0), 0);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 60, 0, 0), 0);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 59, 1, 0), 0);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 9, 1, 0), -HYTHE_EFAULT);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 10, 51, 0), -HYTHE_EFAULT);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 60, 1, 0), -HYTHE_EFAULT);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 61, 0, 0), -HYTHE_EFAULT);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 11, (size_t)-1, 0), -HYTHE_EFAULT);
    CHECK_EQUAL(hythe_shm_check(&shm, NULL, 1, 0), -HYTHE_EFAULT);
    CHECK_EQUAL(hythe_shm_check(&shm, (void *)UINTPTR_MAX, 20, 0), -HYTHE_EFAULT);
    shm.flags = HYTHE_SHM_RDONLY;
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 10, 1, 0), -HYTHE_EACCES);
    CHECK_EQUAL(hythe_shm_check(&shm, bytes + 10, 1, HYTHE_SHM_RDONLY), 0);
}

void test_shm(void)
{
    RUN(a_start_is_refused_where_it_makes_no_sense);
    RUN(each_call_says_what_is_asked);
    RUN(a_status_is_that_of_the_page);
    RUN(each_end_of_a_call_has_its_number);
    RUN(an_agent_that_lies_is_not_believed);
    RUN(an_attachment_that_came_too_late_can_be_given_up);
    RUN(a_range_is_inside_or_refused);
}
