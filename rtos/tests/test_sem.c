/* Semaphores of a core: what it asks of its agent, and what it makes of the answers. */
#include "hythe_sem.h"

#include <string.h>

#include "agent.h"
#include "test.h"

#define METHOD(number) (0x80000000u | (number))

static void open_one(struct fixture *fixture, struct hythe_sem *sem)
{
    will(fixture, 0, 77, 0, 0);
    CHECK_EQUAL(hythe_sem_open(&fixture->services, "/jobs", 0, 0, 0, sem), 0);
}

static void a_name_is_opened_and_taken_away(void)
{
    struct fixture fixture;
    struct hythe_sem sem;
    char name[300];

    fixture_make(&fixture);
    will(&fixture, 0, 77, 0, 0);
    CHECK_EQUAL(hythe_sem_open(&fixture.services, "/jobs", HYTHE_O_CREAT | HYTHE_SEM_RECOVER, 0640,
                               3, &sem),
                0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_SEM_OPEN));
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_FLAGS], 0x10040);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT], 0640);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 3);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_LENGTH], 5);
    CHECK(memcmp(agent.payload, "/jobs", 5) == 0);
    CHECK_EQUAL(sem.object.handle, 77);
    will(&fixture, -HYTHE_ENOENT, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_open(&fixture.services, "/none", 0, 0, 0, &sem), -HYTHE_ENOENT);
    CHECK_EQUAL(hythe_sem_post(&sem), -HYTHE_EBADF);
    CHECK_EQUAL(agent.count, 1);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_unlink(&fixture.services, "/jobs"), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_SEM_UNLINK));
    /* No more of a name than is needed to refuse it. */
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    will(&fixture, -HYTHE_ENAMETOOLONG, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_unlink(&fixture.services, name), -HYTHE_ENAMETOOLONG);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_LENGTH], 256);
    CHECK_EQUAL(violations(&fixture), 0);
    fixture_free(&fixture);
}

static void each_call_names_its_handle(void)
{
    struct fixture fixture;
    struct hythe_sem sem;
    uint32_t value = 5;

    fixture_make(&fixture);
    open_one(&fixture, &sem);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_post(&sem), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_SEM_POST));
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT], 77);
    will(&fixture, 0, 9, 0, 0);
    CHECK_EQUAL(hythe_sem_getvalue(&sem, &value), 0);
    CHECK_EQUAL(value, 9);
    will(&fixture, -HYTHE_EIO, 8, 0, 0);
    CHECK_EQUAL(hythe_sem_getvalue(&sem, &value), -HYTHE_EIO);
    CHECK_EQUAL(value, 9);
    will(&fixture, 0, 2, 0, 0);
    CHECK_EQUAL(hythe_sem_recover(&sem, &value), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_SEM_RECOVER_COUNTS));
    CHECK_EQUAL(value, 2);
    /* Whatever comes of it, it is closed. */
    will(&fixture, -HYTHE_EIO, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_close(&sem), -HYTHE_EIO);
    CHECK_EQUAL(hythe_sem_close(&sem), -HYTHE_EBADF);
    CHECK_EQUAL(agent.count, 1);
    fixture_free(&fixture);
}

static void the_agent_is_told_how_long_to_wait(void)
{
    struct fixture fixture;
    struct world *world = &fixture.world;
    struct hythe_sem sem;
    uint32_t start_ms;

    fixture_make(&fixture);
    open_one(&fixture, &sem);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_timedwait(&sem, 1234), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_TIMEOUT], 1234);
    will(&fixture, -HYTHE_EAGAIN, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_trywait(&sem), -HYTHE_EAGAIN);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_TIMEOUT], 0);
    will(&fixture, -HYTHE_EOWNERDEAD, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_wait(&sem), -HYTHE_EOWNERDEAD);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_TIMEOUT], HYTHE_FOREVER);
    CHECK_EQUAL(hythe_sem_timedwait(&sem, 0xFFFFFFFFu), -HYTHE_EINVAL);
    /* A silent agent is waited for a little longer than it was told to wait. */
    will(&fixture, 0, 0, 0, 0);
    agent.left = 0;
    start_ms = world->now_ms;
    CHECK_EQUAL(hythe_sem_timedwait(&sem, 1000), -HYTHE_ETIMEDOUT);
    CHECK(world->now_ms - start_ms >= 1000 + WAIT_MS);
    CHECK_EQUAL(agent.count, 1);
    CHECK_EQUAL(violations(&fixture), 0);
    fixture_free(&fixture);
}

static void an_answer_with_something_behind_it_is_none(void)
{
    struct fixture fixture;
    struct hythe_sem sem;

    fixture_make(&fixture);
    open_one(&fixture, &sem);
    will(&fixture, 0, 0, 0, 0);
    agent.byte_count = 1;
    CHECK_EQUAL(hythe_sem_trywait(&sem), -HYTHE_EPROTO);
    will(&fixture, -4096, 0, 0, 0);
    CHECK_EQUAL(hythe_sem_post(&sem), -HYTHE_EPROTO);
    will(&fixture, 0, 0, 0, 0);
    agent.words[HYTHE_CALL_METHOD] = METHOD(HYTHE_SEM_POST);
    CHECK_EQUAL(hythe_sem_trywait(&sem), -HYTHE_EPROTO);
    CHECK_EQUAL(violations(&fixture), 3);
    fixture_free(&fixture);
}

void test_sem(void)
{
    RUN(a_name_is_opened_and_taken_away);
    RUN(each_call_names_its_handle);
    RUN(the_agent_is_told_how_long_to_wait);
    RUN(an_answer_with_something_behind_it_is_none);
}
