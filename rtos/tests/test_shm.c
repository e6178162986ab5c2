/*
 * Services of the agent, and segments: what a core asks, what it makes of the answers, and what an
 * agent may lie about.
 */
#include "agent.h"
#include "hythe_shm.h"
#include "services.h"
#include "test.h"
#include "vectors.h"

static int get(struct fixture *fixture)
{
    return hythe_shmget(&fixture->services, 0x1234, 5000, HYTHE_IPC_CREAT | 0x180u, WAIT_MS);
}

static void a_start_is_refused_where_it_makes_no_sense(void)
{
    struct fixture fixture;
    struct hythe_services_config config;
    struct hythe_services services;

    fixture_make(&fixture);
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
    fixture_free(&fixture);
}

static void each_call_says_what_is_asked(void)
{
    struct fixture fixture;
    struct hythe_shmid status = {.uid = 7, .gid = 8, .mode = 0640};
    struct hythe_shm shm;

    fixture_make(&fixture);
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
    fixture_free(&fixture);
}

static void a_status_is_that_of_the_page(void)
{
    static struct vectors vectors;
    struct fixture fixture;
    struct hythe_shmid status;

    fixture_make(&fixture);
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
    fixture_free(&fixture);
}

static void each_end_of_a_call_has_its_number(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;

    fixture_make(&fixture);
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
    fixture_free(&fixture);
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

    fixture_make(&fixture);
    for (i = 0; i < sizeof places / sizeof places[0]; i++) {
        will(&fixture, 0, places[i].page, places[i].low, places[i].high);
        supply(&fixture, OUT);
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
    fixture_free(&fixture);
}

static void an_attachment_that_came_too_late_can_be_given_up(void)
{
    struct fixture fixture;
    struct hythe_shm shm;

    fixture_make(&fixture);
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
    fixture_free(&fixture);
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
