/* Message queues of a core: what it asks of its agent, tells it, and makes of the answers. */
#include "hythe_mq.h"

#include <string.h>

#include "agent.h"
#include "test.h"

#define METHOD(number) (0x80000000u | (number))

static void open_one(struct fixture *fixture, struct hythe_mq *mq, uint32_t message_bytes)
{
    will(fixture, 0, 55, 10, message_bytes);
    CHECK_EQUAL(hythe_mq_open(&fixture->services, "/q", HYTHE_O_RDWR, 0, NULL, mq), 0);
}

/* Everything that was told is taken, too. */
static void settle(struct fixture *fixture)
{
    agent_answer(&fixture->world);
}

static void a_queue_has_the_limits_that_the_agent_says(void)
{
    const struct hythe_mq_attr attr = {.maxmsg = 3, .msgsize = 40};
    struct hythe_mq_attr found;
    struct fixture fixture;
    struct hythe_mq mq;

    fixture_make(&fixture);
    will(&fixture, 0, 55, 4, 50);
    CHECK_EQUAL(hythe_mq_open(&fixture.services, "/q",
                              HYTHE_O_CREAT | HYTHE_O_WRONLY | HYTHE_O_NONBLOCK, 0600, &attr, &mq),
                0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_OPEN));
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_FLAGS], HYTHE_O_CREAT | HYTHE_O_WRONLY);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT], 0600);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 3);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 2], 40);
    will(&fixture, 0, 2, 0, 0);
    CHECK_EQUAL(hythe_mq_getattr(&mq, &found), 0);
    CHECK(found.maxmsg == 4 && found.msgsize == 50 && found.curmsgs == 2);
    CHECK_EQUAL(found.flags, HYTHE_O_NONBLOCK);
    found.flags = 0;
    hythe_mq_setattr(&mq, &found);
    CHECK_EQUAL(mq.attr.flags, 0);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_close(&mq), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_CLOSE));
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "", 0, 0, 0), -HYTHE_EBADF);
    CHECK_EQUAL(hythe_mq_timedreceive(&mq, NULL, 0, NULL, 0), -HYTHE_EBADF);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_unlink(&fixture.services, "/q"), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_UNLINK));
    fixture_free(&fixture);
}

static void long_messages_go_over_their_own_endpoint(void)
{
    static const uint32_t lengths[] = {0, 1, 992, 993, 3000};
    static uint8_t message[4000];
    struct fixture fixture;
    struct hythe_mq mq;
    uint32_t i;

    fixture_make(&fixture);
    open_one(&fixture, &mq, 3808);
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(message, (int)i + 1, sizeof message);
        will(&fixture, 0, 0, 0, 0);
        supply(&fixture, OUT2);
        CHECK_EQUAL(hythe_mq_timedsend(&mq, message, lengths[i], 31, WAIT_MS), 0);
        CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_SEND));
        CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT], 55);
        CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 31);
        CHECK_EQUAL(agent.came[0][HYTHE_CALL_LENGTH], lengths[i]);
        CHECK_EQUAL(agent.endpoint, lengths[i] > HYTHE_SERVICES_SMALL ? OUT2 : OUT);
        CHECK(lengths[i] == 0 || agent.payload[0] == i + 1);
    }
    CHECK_EQUAL(hythe_mq_timedsend(&mq, message, 3809, 0, WAIT_MS), -HYTHE_EMSGSIZE);
    /* A program without that endpoint. */
    fixture.services.messages.endpoint = NULL;
    CHECK_EQUAL(hythe_mq_timedsend(&mq, message, 993, 0, WAIT_MS), -HYTHE_EMSGSIZE);
    CHECK_EQUAL(violations(&fixture), 0);
    fixture_free(&fixture);
}

static void a_sender_waits_for_a_place_by_a_call_of_its_own(void)
{
    struct fixture fixture;
    struct hythe_mq mq;

    fixture_make(&fixture);
    open_one(&fixture, &mq, 100);
    will(&fixture, 0, 60, 0, 0);
    supply(&fixture, OUT);
    supply(&fixture, OUT);
    agent.refuses = 1;
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "abc", 3, 0, WAIT_MS), 0);
    CHECK_EQUAL(agent.count, 3);
    CHECK_EQUAL(agent.came[2][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_SEND));
    CHECK_EQUAL(agent.came[1][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_WAIT_SPACE));
    CHECK(agent.came[1][HYTHE_CALL_TIMEOUT] != 0 && agent.came[1][HYTHE_CALL_TIMEOUT] <= WAIT_MS);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_SEND));
    /* It does not wait. */
    will(&fixture, -HYTHE_EAGAIN, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "abc", 3, 0, 0), -HYTHE_EAGAIN);
    mq.attr.flags = HYTHE_O_NONBLOCK;
    will(&fixture, -HYTHE_EAGAIN, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_send(&mq, "abc", 3, 0), -HYTHE_EAGAIN);
    CHECK_EQUAL(agent.count, 1);
    mq.attr.flags = 0;
    /* An agent that says that there is more time than there was, or none. */
    will(&fixture, 0, 0xFFFFFFFFu, 0, 0);
    supply(&fixture, OUT);
    supply(&fixture, OUT);
    agent.refuses = 1;
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "abc", 3, 0, 1), -HYTHE_ETIMEDOUT);
    CHECK_EQUAL(agent.count, 2);
    will(&fixture, 0, 0, 0, 0);
    supply(&fixture, OUT);
    agent.refuses = 1;
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "abc", 3, 0, WAIT_MS), -HYTHE_ETIMEDOUT);
    /* The time is over; another error. */
    will(&fixture, -HYTHE_ETIMEDOUT, 0, 0, 0);
    supply(&fixture, OUT);
    agent.refuses = 1;
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "abc", 3, 0, WAIT_MS), -HYTHE_ETIMEDOUT);
    will(&fixture, -HYTHE_EINVAL, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_timedsend(&mq, "abc", 3, 99, WAIT_MS), -HYTHE_EINVAL);
    fixture_free(&fixture);
}

static void a_message_is_confirmed_in_the_slot_that_it_came_in(void)
{
    struct fixture fixture;
    struct hythe_mq mq;
    char message[100];
    uint32_t priority;

    fixture_make(&fixture);
    open_one(&fixture, &mq, 100);
    will(&fixture, 0, 0, 7, 55);
    agent.words[HYTHE_CALL_VALUE + 3] = 1000;
    agent.byte_count = 5;
    memcpy(agent.bytes, "hello", 5);
    CHECK_EQUAL(hythe_mq_timedreceive(&mq, message, sizeof message, &priority, WAIT_MS), 5);
    CHECK(memcmp(message, "hello", 5) == 0);
    CHECK_EQUAL(priority, 7);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_RECEIVE));
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], sizeof message);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_TIMEOUT], WAIT_MS);
    settle(&fixture);
    CHECK_EQUAL(agent.told_count, 1);
    CHECK_EQUAL(agent.told[HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_TAKEN));
    CHECK_EQUAL(agent.told[HYTHE_CALL_ARGUMENT], 55);
    CHECK_EQUAL(agent.told[HYTHE_CALL_ARGUMENT + 1], 1000);
    CHECK_EQUAL(agent.told[HYTHE_CALL_LENGTH], 0);
    /* No message, nothing to confirm; nor for what is none. */
    will(&fixture, -HYTHE_EAGAIN, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_timedreceive(&mq, message, sizeof message, NULL, 0), -HYTHE_EAGAIN);
    will(&fixture, 0, 0, 7, 55);
    agent.byte_count = sizeof message + 1;
    CHECK_EQUAL(hythe_mq_timedreceive(&mq, message, sizeof message, NULL, 0), -HYTHE_EPROTO);
    will(&fixture, -HYTHE_EIO, 0, 7, 55);
    agent.byte_count = 1;
    CHECK_EQUAL(hythe_mq_timedreceive(&mq, message, sizeof message, NULL, 0), -HYTHE_EPROTO);
    settle(&fixture);
    CHECK_EQUAL(agent.told_count, 0);
    CHECK_EQUAL(violations(&fixture), 2);
    fixture_free(&fixture);
}

static void count(void *argument)
{
    ++*(uint32_t *)argument;
}

static void a_callback_is_called_once_by_the_call_that_tells_of_it(void)
{
    struct hythe_mq_attr attr;
    struct fixture fixture;
    struct hythe_mq mq;
    uint32_t called = 0;

    fixture_make(&fixture);
    open_one(&fixture, &mq, 100);
    will(&fixture, -HYTHE_EBUSY, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_notify(&mq, count, &called), -HYTHE_EBUSY);
    /* An agent that tells of what nobody asked for calls nothing. */
    will(&fixture, 0, 0, 0, 0);
    agent.words[HYTHE_CALL_VALUE + 4] = 1;
    CHECK_EQUAL(hythe_mq_getattr(&mq, &attr), 0);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_notify(&mq, count, &called), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 1);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_getattr(&mq, &attr), 0);
    CHECK_EQUAL(called, 0);
    will(&fixture, 0, 0, 0, 0);
    agent.words[HYTHE_CALL_VALUE + 4] = 1;
    CHECK_EQUAL(hythe_mq_dispatch(&mq, WAIT_MS), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_METHOD], METHOD(HYTHE_MQ_NOTICE));
    CHECK_EQUAL(called, 1);
    will(&fixture, 0, 0, 0, 0);
    agent.words[HYTHE_CALL_VALUE + 4] = 1;
    CHECK_EQUAL(hythe_mq_getattr(&mq, &attr), 0);
    CHECK_EQUAL(called, 1);
    will(&fixture, 0, 0, 0, 0);
    CHECK_EQUAL(hythe_mq_notify(&mq, NULL, NULL), 0);
    CHECK_EQUAL(agent.came[0][HYTHE_CALL_ARGUMENT + 1], 0);
    fixture_free(&fixture);
}

void test_mq(void)
{
    RUN(a_queue_has_the_limits_that_the_agent_says);
    RUN(long_messages_go_over_their_own_endpoint);
    RUN(a_sender_waits_for_a_place_by_a_call_of_its_own);
    RUN(a_message_is_confirmed_in_the_slot_that_it_came_in);
    RUN(a_callback_is_called_once_by_the_call_that_tells_of_it);
}
