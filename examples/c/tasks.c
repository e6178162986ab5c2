/*
 * A program as several tasks: the first gives each of the others a number, and adds up what comes
 * back; then all of them reduce a value together.
 *
 *   hythe run -n 4 tasks
 *
 * Built and run by the tests of bindings/c and by the guide. Never waits longer than a minute for
 * another task.
 */
#include <hythe.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WORK = 1,
    RESULT = 2
};

static const uint64_t TIMEOUT_NS = 60 * HYTHE_SECOND_NS;
/* Of hythe_task_receive(): whichever task it is from. */
static const uint32_t ANY_TASK = 0;

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static long receive(struct hythe_task *task, uint32_t from, uint32_t tag)
{
    struct hythe_task_message *message;
    long number;

    if (check(hythe_task_receive(task, from, tag, TIMEOUT_NS, &message), "receive") == 0) {
        fprintf(stderr, "nothing came\n");
        exit(1);
    }
    check(hythe_task_message_read(message, 0, &number, sizeof number), "read");
    hythe_task_message_release(message);
    return number;
}

static void lead(struct hythe_task *task)
{
    int rank, size = hythe_task_size(task);
    long sum = 0;

    for (rank = 1; rank < size; rank++) {
        long number = rank;
        check(hythe_task_send(task, hythe_task_sibling(task, (uint32_t)rank), WORK, &number,
                              sizeof number),
              "send");
    }
    for (rank = 1; rank < size; rank++)
        sum += receive(task, ANY_TASK, RESULT);
    printf("the squares add up to %ld\n", sum);
}

static void follow(struct hythe_task *task)
{
    uint32_t leader = hythe_task_sibling(task, 0);
    long number = receive(task, leader, WORK);

    number *= number;
    check(hythe_task_send(task, leader, RESULT, &number, sizeof number), "send");
}

int main(void)
{
    const struct hythe_task_reduction sum = {HYTHE_DOUBLE, HYTHE_SUM, 1};
    struct hythe_task *task;
    struct hythe_task_group *all;
    double share, whole = 0;

    check(hythe_task_join(NULL, &task), "join");
    if (hythe_task_rank(task) == 0)
        lead(task);
    else
        follow(task);
    check(hythe_task_group_of_siblings(task, &all), "group");
    share = 1.0 / hythe_task_size(task);
    check(hythe_task_group_reduce(all, task, 0, sum, &share, &whole, TIMEOUT_NS), "reduce");
    if (hythe_task_rank(task) == 0)
        printf("the shares are %.0f together\n", whole);
    hythe_task_group_close(all);
    hythe_task_close(task);
    return 0;
}
