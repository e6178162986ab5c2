/* What a task has of the library is known, and comes back when it ends, wherever it was killed. */
#include <string.h>

#include "task.h"
#include "tasks.h"
#include "test.h"

/* Linux's side of one round: what it gives, and what it must get back whatever happens. */
static void push_in(struct tasks *tasks, uint32_t slot)
{
    linux_push(&tasks->world.side, LINUX_FLOW(IN2, 0), linux_slot(&tasks->world.side, 0, slot, 10));
}

static void supply(struct tasks *tasks, uint32_t endpoint, uint32_t slot)
{
    struct descriptor empty = linux_slot(&tasks->world.side, 0, slot, WORLD_SLOT_BYTES - 256);

    empty.references = endpoint == OUT ? 1 : empty.references;
    linux_push(&tasks->world.side, LINUX_FLOW(endpoint, 0), empty);
}

/* Takes all that came back over a flow; 1 bit for each slot. */
static uint32_t take_back(struct tasks *tasks, uint32_t endpoint)
{
    struct descriptor got;
    uint32_t slots = 0;

    while (linux_take(&tasks->world.side, LINUX_FLOW(endpoint, 0), &got)) {
        uint32_t bit = (uint32_t)1 << (got.place & 0xFFFFFFu);
        CHECK((slots & bit) == 0);
        slots |= bit;
    }
    return slots;
}

static uint32_t held_by_all(struct tasks *tasks)
{
    uint32_t held = 0;
    uint32_t endpoint;

    for (endpoint = 0; endpoint < WORLD_ENDPOINTS; endpoint++) {
        held += world_counters(&tasks->world, endpoint).held;
    }
    return held;
}

/* ---- What a task may do ---- */

static void receive_and_release(struct tasks *tasks)
{
    struct hythe_buffer buffer;

    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks->world, IN2), &buffer, 100), HYTHE_OK);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
}

static void receive_nothing(struct tasks *tasks)
{
    struct hythe_buffer buffer;

    (void)hythe_receive(world_endpoint(&tasks->world, IN2), &buffer, 100);
    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks->world, IN2), &buffer, 30), HYTHE_E_TIMEOUT);
}

static void lease_and_publish(struct tasks *tasks)
{
    struct hythe_buffer buffer;

    CHECK_EQUAL(hythe_lease(world_endpoint(&tasks->world, OUT2), &buffer, 100), HYTHE_OK);
    CHECK_EQUAL(hythe_publish(&buffer, 10, 100), HYTHE_OK);
}

static void receive_and_forward(struct tasks *tasks)
{
    struct hythe_buffer buffer;

    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks->world, IN2), &buffer, 100), HYTHE_OK);
    CHECK_EQUAL(hythe_forward(&buffer, world_endpoint(&tasks->world, OUT2), 100), HYTHE_OK);
}

static void ask_in_vain(struct tasks *tasks)
{
    struct hythe_buffer buffer;
    struct hythe_buffer reply;

    CHECK_EQUAL(hythe_request_lease(&tasks->client, &buffer, 100), HYTHE_OK);
    CHECK_EQUAL(hythe_call(&tasks->client, &buffer, 4, &reply, 30), HYTHE_E_TIMEOUT);
}

/* Two buffers and a request, and no end. */
static void take_all(struct tasks *tasks)
{
    struct hythe_buffer buffer;
    uint64_t number;

    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks->world, IN2), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_lease(world_endpoint(&tasks->world, OUT2), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_request_lease(&tasks->client, &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_request_send(&tasks->client, &buffer, 4, &number), HYTHE_OK);
}

/* ---- Killed at each step ---- */

static const struct {
    const char *name;
    void (*act)(struct tasks *tasks);
    /* Steps at which it can be killed, at the least. */
    uint32_t steps;
} ACTS[] = {
    {"receive_and_release", receive_and_release, 2},
    {"receive_nothing", receive_nothing, 4},
    {"lease_and_publish", lease_and_publish, 2},
    {"receive_and_forward", receive_and_forward, 2},
    {"ask_in_vain", ask_in_vain, 5},
    {"take_all", take_all, 5},
};

/* All that Linux gave in a round comes back, whatever the task had done with it. */
static void expect_all_back(struct tasks *tasks)
{
    struct hythe_buffer buffer;
    uint32_t slots;

    tasks->self = TASKS;
    /* What the task has not taken, an unregistered one takes. */
    while (hythe_receive(world_endpoint(&tasks->world, IN2), &buffer, 0) == HYTHE_OK) {
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    while (hythe_lease(world_endpoint(&tasks->world, OUT2), &buffer, 0) == HYTHE_OK) {
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    while (hythe_request_lease(&tasks->client, &buffer, 0) == HYTHE_OK) {
        CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    }
    CHECK_EQUAL(held_by_all(tasks), 0);
    CHECK_EQUAL(take_back(tasks, IN2), 1u << 1);
    /* A buffer that was forwarded goes there, too. */
    slots = take_back(tasks, OUT2);
    CHECK((slots & ~(1u << 1)) == 1u << 2);
    CHECK_EQUAL(take_back(tasks, OUT), 1u << 3);
}

static void a_task_is_killed_at_each_step_of_each_call(void)
{
    uint32_t i;

    for (i = 0; i < sizeof ACTS / sizeof ACTS[0]; i++) {
        uint32_t step = 0;
        int killed = 1;
        while (killed && step < 1000) {
            struct tasks tasks;
            unsigned broken = test_sum.broken_checks;
            tasks_make(&tasks);
            if (ACTS[i].act != receive_nothing) {
                push_in(&tasks, 1);
            }
            supply(&tasks, OUT2, 2);
            supply(&tasks, OUT, 3);
            killed = tasks_kill_at(&tasks, TASK_A, ++step, ACTS[i].act);
            tasks_expect_nothing_of(&tasks, TASK_A);
            if (ACTS[i].act == receive_nothing) {
                push_in(&tasks, 1);
            }
            expect_all_back(&tasks);
            if (test_sum.broken_checks != broken) {
                printf("  %s, killed at step %u\n", ACTS[i].name, (unsigned)step);
            }
            world_free(&tasks.world);
        }
        CHECK(!killed);
        CHECK(step > ACTS[i].steps);
    }
}

/* ---- What is counted, and whose it is ---- */

static void what_it_had_is_counted(void)
{
    struct tasks tasks;

    tasks_make(&tasks);
    push_in(&tasks, 1);
    supply(&tasks, OUT2, 2);
    supply(&tasks, OUT, 3);
    CHECK_EQUAL(tasks_kill_at(&tasks, TASK_A, 1000, take_all), 0);
    CHECK_EQUAL(tasks.memory[TASK_A].buffers_returned, 2);
    CHECK_EQUAL(tasks.memory[TASK_A].requests_forgotten, 1);
    CHECK_EQUAL(tasks.kills, 1);
    tasks_expect_nothing_of(&tasks, TASK_A);
    /* Given back as read, as unused, and sent. */
    CHECK_EQUAL(world_counters(&tasks.world, IN2).returned, 1);
    CHECK_EQUAL(world_counters(&tasks.world, OUT2).returned, 1);
    CHECK_EQUAL(world_counters(&tasks.world, OUT).published, 1);
    world_free(&tasks.world);
}

static void what_another_task_has_stays(void)
{
    struct tasks tasks;
    struct hythe_buffer other;
    struct hythe_buffer passed;

    tasks_make(&tasks);
    push_in(&tasks, 4);
    push_in(&tasks, 5);
    tasks.self = TASK_B;
    CHECK(hythe_task_begin(&tasks.memory[TASK_B], NULL, 0));
    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks.world, IN2), &other, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks.world, IN2), &passed, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_B]), 2);
    CHECK(hythe_task_begin(&tasks.memory[TASK_A], NULL, 0));
    tasks.self = TASK_A;
    hythe_buffer_adopt(&passed);
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_A]), 1);
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_B]), 1);
    push_in(&tasks, 1);
    supply(&tasks, OUT2, 2);
    supply(&tasks, OUT, 3);
    CHECK_EQUAL(tasks_kill_at(&tasks, TASK_A, 1000, take_all), 0);
    CHECK_EQUAL(tasks.memory[TASK_A].buffers_returned, 3);
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_B]), 1);
    tasks.self = TASK_B;
    CHECK_EQUAL(hythe_release(&other), HYTHE_OK);
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_B]), 0);
    CHECK_EQUAL(held_by_all(&tasks), 0);
    world_free(&tasks.world);
}

/* A new agent is answered when no buffer of the old session is held any more. */
static void a_killed_task_keeps_no_new_agent_waiting(void)
{
    struct tasks tasks;

    tasks_make(&tasks);
    push_in(&tasks, 1);
    supply(&tasks, OUT2, 2);
    supply(&tasks, OUT, 3);
    tasks.self = TASK_A;
    CHECK(hythe_task_begin(&tasks.memory[TASK_A], NULL, 0));
    take_all(&tasks);
    linux_publish(&tasks.world.side);
    CHECK_EQUAL(hythe_link_service(&tasks.world.link), HYTHE_E_DOWN);
    tasks.self = TASK_SERVICE;
    hythe_task_end(&tasks.memory[TASK_A], TASK_KILLED);
    tasks_expect_nothing_of(&tasks, TASK_A);
    CHECK_EQUAL(hythe_link_service(&tasks.world.link), HYTHE_OK);
    CHECK_EQUAL(held_by_all(&tasks), 0);
    world_free(&tasks.world);
}

static void a_full_table_is_counted_and_refuses_nothing(void)
{
    struct tasks tasks;
    struct hythe_buffer buffers[TASKS_HELD + 1];
    uint32_t i;

    tasks_make(&tasks);
    tasks.self = TASK_A;
    CHECK(hythe_task_begin(&tasks.memory[TASK_A], NULL, 0));
    for (i = 0; i <= TASKS_HELD; i++) {
        push_in(&tasks, i);
        CHECK_EQUAL(hythe_receive(world_endpoint(&tasks.world, IN2), &buffers[i], 0), HYTHE_OK);
    }
    CHECK_EQUAL(tasks.tasks.untracked, 1);
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_A]), TASKS_HELD);
    /* In another order, the one that is not known among them. */
    for (i = TASKS_HELD + 1; i-- > 0;) {
        CHECK_EQUAL(hythe_release(&buffers[i]), HYTHE_OK);
    }
    CHECK_EQUAL(hythe_held_count(&tasks.memory[TASK_A]), 0);
    CHECK_EQUAL(held_by_all(&tasks), 0);
    world_free(&tasks.world);
}

static void a_wrong_number_in_a_buffer_frees_no_other(void)
{
    struct tasks tasks;
    struct hythe_buffer first;
    struct hythe_buffer second;

    tasks_make(&tasks);
    tasks.self = TASK_A;
    CHECK(hythe_task_begin(&tasks.memory[TASK_A], NULL, 0));
    push_in(&tasks, 1);
    push_in(&tasks, 2);
    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks.world, IN2), &first, 0), HYTHE_OK);
    CHECK_EQUAL(hythe_receive(world_endpoint(&tasks.world, IN2), &second, 0), HYTHE_OK);
    second.tracked = first.tracked;
    CHECK_EQUAL(hythe_release(&second), HYTHE_OK);
    CHECK_EQUAL(tasks.held[0].owner == &tasks.memory[TASK_A], 1);
    first.tracked = 77777;
    CHECK_EQUAL(hythe_release(&first), HYTHE_OK);
    CHECK_EQUAL(held_by_all(&tasks), 0);
    world_free(&tasks.world);
}

static void without_tasks_nothing_is_recorded(void)
{
    struct world world;
    struct hythe_buffer buffer;

    world_make_connected(&world);
    CHECK(world.link.tracker == NULL);
    linux_push(&world.side, LINUX_FLOW(IN2, 0), linux_slot(&world.side, 0, 1, 10));
    CHECK_EQUAL(hythe_receive(world_endpoint(&world, IN2), &buffer, 0), HYTHE_OK);
    CHECK_EQUAL(buffer.tracked, 0);
    hythe_buffer_adopt(&buffer);
    CHECK_EQUAL(hythe_release(&buffer), HYTHE_OK);
    world_free(&world);
}

void test_held(void)
{
    RUN(a_task_is_killed_at_each_step_of_each_call);
    RUN(what_it_had_is_counted);
    RUN(what_another_task_has_stays);
    RUN(a_killed_task_keeps_no_new_agent_waiting);
    RUN(a_full_table_is_counted_and_refuses_nothing);
    RUN(a_wrong_number_in_a_buffer_frees_no_other);
    RUN(without_tasks_nothing_is_recorded);
}
