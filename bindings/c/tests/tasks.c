/*
 * A job of three tasks in C: messages, spawning, ends, groups.
 *
 *   hythe run -n 3 tasks
 *
 * Run by the tests of bindings/c. Never waits longer than two minutes for anybody.
 */
#include <hythe.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS = 3,
    MANY = 2000,
    LARGE = 3000000
};

static const uint64_t TIMEOUT_NS = 120 * HYTHE_SECOND_NS;

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static void demand(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}

static struct hythe_task_message *receive(struct hythe_task *task, uint32_t from, int64_t tag)
{
    struct hythe_task_message *message;
    demand(check(hythe_task_receive(task, from, tag, TIMEOUT_NS, &message), "receive") == 1,
           "a message in time");
    return message;
}

/* Each sends to the next; the first also what needs many pieces. */
static void messages(struct hythe_task *task)
{
    uint32_t rank = (uint32_t)hythe_task_rank(task);
    uint32_t next = hythe_task_sibling(task, (rank + 1) % RANKS);
    uint32_t before = hythe_task_sibling(task, (rank + RANKS - 1) % RANKS);
    struct hythe_task_message *message;
    unsigned char *large = malloc(LARGE);
    uint32_t source, tag;
    const void *data;
    size_t length;
    char text[6];

    demand(large != NULL, "memory");
    memset(large, (int)rank, LARGE);
    check(hythe_task_send(task, next, 5, "hello", 5), "send");
    check(hythe_task_send(task, next, 6, large, LARGE), "send");
    message = receive(task, before, 6);
    demand(hythe_task_message_length(message) == LARGE, "its length");
    check(hythe_task_message_read(message, LARGE - 1, large, 1), "read");
    demand(large[0] == (rank + RANKS - 1) % RANKS, "its bytes");
    demand(hythe_task_message_read(message, LARGE, large, 1) == HYTHE_EARGUMENT, "behind its end");
    demand(hythe_task_message_data(message, &data) == 0 && data != NULL, "its bytes in place");
    hythe_task_message_release(message);
    free(large);

    demand(check(hythe_task_probe(task, 0, HYTHE_ANY_TAG, &source, &tag, &length), "probe") == 1,
           "one that was passed by");
    demand(source == before && tag == 5 && length == 5, "what is known of it");
    message = receive(task, 0, HYTHE_ANY_TAG);
    demand(hythe_task_message_source(message) == before, "its sender");
    demand(hythe_task_message_tag(message) == 5, "its tag");
    check(hythe_task_message_read(message, 0, text, 5), "read");
    demand(memcmp(text, "hello", 5) == 0, "its text");
    hythe_task_message_release(message);
    demand(hythe_task_receive(task, 0, HYTHE_ANY_TAG, 0, &message) == 0 && message == NULL,
           "no other");
    demand(hythe_task_receive(task, 0, -2, 0, &message) == HYTHE_EARGUMENT, "no such tag");
    demand(hythe_task_send(task, 0, 0, NULL, 0) == HYTHE_EARGUMENT, "no such task");
    check(hythe_task_flush(task, TIMEOUT_NS), "flush");
}

static void groups(struct hythe_task *task)
{
    uint32_t rank = (uint32_t)hythe_task_rank(task);
    struct hythe_task_reduction sum = {HYTHE_INT64, HYTHE_SUM, 2};
    struct hythe_task_reduction most = {HYTHE_DOUBLE, HYTHE_MAX, 1};
    struct hythe_task_reduction none = {0, HYTHE_SUM, 1};
    struct hythe_task_group *all, *named;
    int64_t own[2], sums[2];
    double real, greatest;
    uint32_t given, parts[RANKS], part;

    check(hythe_task_group_of_siblings(task, &all), "siblings");
    demand(hythe_task_group_size(all) == RANKS, "the size");
    demand(hythe_task_group_instance(all, hythe_task_id(task)) == (int)rank, "the instance");
    demand(hythe_task_group_task(all, rank) == hythe_task_id(task), "the task");
    demand(hythe_task_group_task(all, RANKS) == 0, "no such task");
    check(hythe_task_group_barrier(all, task, TIMEOUT_NS), "barrier");

    given = rank;
    check(hythe_task_group_broadcast(all, task, 1, &given, sizeof given, TIMEOUT_NS), "broadcast");
    demand(given == 1, "what the root has");
    for (part = 0; part < RANKS; part++)
        parts[part] = 10 + part;
    check(hythe_task_group_scatter(all, task, 2, rank == 2 ? parts : NULL, &part, sizeof part,
                                   TIMEOUT_NS),
          "scatter");
    demand(part == 10 + rank, "its part");
    check(hythe_task_group_gather(all, task, 0, &rank, parts, sizeof rank, TIMEOUT_NS), "gather");
    demand(rank != 0 || (parts[0] == 0 && parts[1] == 1 && parts[2] == 2), "all parts");
    own[0] = rank;
    own[1] = -1;
    check(hythe_task_group_reduce(all, task, 0, sum, own, sums, TIMEOUT_NS), "reduce");
    demand(rank != 0 || (sums[0] == 3 && sums[1] == -3), "the sums");
    real = 0.5 * rank;
    check(hythe_task_group_reduce(all, task, 1, most, &real, &greatest, TIMEOUT_NS), "reduce");
    demand(rank != 1 || greatest == 1.0, "the greatest");
    demand(hythe_task_group_reduce(all, task, 1, none, &real, &greatest, 0) == HYTHE_EARGUMENT,
           "no such type");

    demand(hythe_task_barrier(task, "named", 1, 0) == HYTHE_EGROUP, "no member yet");
    check(hythe_task_group_join(task, "named", &named), "join");
    hythe_task_group_close(named);
    check(hythe_task_barrier(task, "named", RANKS, TIMEOUT_NS), "barrier");
    check(hythe_task_group_open(task, "named", &named), "open");
    demand(hythe_task_group_size(named) == RANKS, "its size");
    hythe_task_group_close(named);
    check(hythe_task_group_barrier(all, task, TIMEOUT_NS), "barrier");
    check(hythe_task_group_leave(task, "named"), "leave");
    demand(hythe_task_group_leave(task, "named") == HYTHE_EGROUP, "it has left");
    hythe_task_group_close(all);
}

/* The first spawns two more of this program, which answer, and sees their ends. */
static void spawning(struct hythe_task *task, const char *program)
{
    const char *arguments[] = {"an argument", NULL};
    const char *environment[] = {"GIVEN=value", NULL};
    struct hythe_spawn_options options;
    struct hythe_task_message *message;
    uint32_t spawned[2], ended;
    int i;

    hythe_spawn_options_init(&options, sizeof options);
    options.program = program;
    options.arguments = arguments;
    options.environment = environment;
    options.count = 2;
    demand(check(hythe_task_spawn(task, &options, spawned), "spawn") == 2, "both");
    for (i = 0; i < 2; i++) {
        message = receive(task, spawned[i], 1);
        hythe_task_message_release(message);
        check(hythe_task_notify_end(task, spawned[i]), "notify");
    }
    demand(check(hythe_task_has_ended(task, spawned[1]), "ended") == 0, "it waits");
    check(hythe_task_send(task, spawned[0], 2, NULL, 0), "send");
    check(hythe_task_kill(task, spawned[1], 9), "kill");
    for (i = 0; i < 2; i++) {
        demand(check(hythe_task_take_end(task, TIMEOUT_NS, &ended), "end") == 1, "in time");
        demand(ended == spawned[0] || ended == spawned[1], "whose end");
    }
    demand(hythe_task_receive(task, ended, 3, TIMEOUT_NS, &message) == HYTHE_EENDED, "nothing");
    demand(hythe_task_send(task, ended, 3, NULL, 0) == HYTHE_EENDED, "nobody");
    demand(hythe_task_kill(task, ended, 9) == HYTHE_ENOTASK, "no such task");
    options.host = "no.such.host";
    demand(hythe_task_spawn(task, &options, spawned) == HYTHE_ENOTASK, "no such host");
    options.host = NULL;
    options.program = "/no/such/program";
    demand(hythe_task_spawn(task, &options, spawned) == HYTHE_ERUNNER, "no such program");
    demand(strstr(hythe_last_error(), "/no/such/program") != NULL, "which is named");
}

static void spawned(struct hythe_task *task, int count, char **words)
{
    const char *given = getenv("GIVEN");
    demand(count == 2 && strcmp(words[1], "an argument") == 0, "the argument");
    demand(given != NULL && strcmp(given, "value") == 0, "the variable");
    check(hythe_task_send(task, hythe_task_parent(task), 1, NULL, 0), "send");
    hythe_task_message_release(receive(task, hythe_task_parent(task), 2));
}

/* What a task keeps that it has not received has a limit, and stays. */
static void full_inbox(struct hythe_task *task)
{
    uint32_t own = hythe_task_id(task);
    struct hythe_task_message *message;

    check(hythe_task_set_passed_by_bytes_max(task, 1000), "limit");
    for (int i = 0; i < 10; i++)
        check(hythe_task_send(task, own, 7, "unwanted", 8), "send");
    check(hythe_task_send(task, own, 8, "wanted", 6), "send");
    demand(hythe_task_receive(task, own, 8, TIMEOUT_NS, &message) == HYTHE_EKEPT, "it is full");
    demand(message == NULL, "no message");
    for (int i = 0; i < 10; i++)
        hythe_task_message_release(receive(task, own, 7));
    hythe_task_message_release(receive(task, own, 8));
}

/* The first receives what the others have sent, which exit without closing their tasks. */
static void exits(struct hythe_task *task)
{
    uint32_t rank = (uint32_t)hythe_task_rank(task);

    for (int i = 0; i < MANY && rank != 0; i++)
        check(hythe_task_send(task, hythe_task_sibling(task, 0), 9, "end", rank), "send");
    for (int i = 0; i < (RANKS - 1) * MANY && rank == 0; i++)
        hythe_task_message_release(receive(task, 0, 9));
}

int main(int count, char **words)
{
    struct hythe_task_options options;
    struct hythe_task *task;

    if (count == 2 && strcmp(words[1], "alone") == 0) {
        demand(hythe_task_join(NULL, &task) == HYTHE_ENOJOB && task == NULL, "no task");
        demand(hythe_task_id(NULL) == 0 && hythe_task_rank(NULL) == HYTHE_EARGUMENT, "NULL");
        demand(hythe_task_leave(NULL) == HYTHE_EARGUMENT, "NULL");
        puts("alone");
        return 0;
    }
    hythe_task_options_init(&options, sizeof options);
    options.trust_peers = 1;
    check(hythe_task_join(&options, &task), "join");
    if (hythe_task_parent(task) != 0) {
        spawned(task, count, words);
        check(hythe_task_leave(task), "leave");
        return 0;
    }
    demand(hythe_task_size(task) == RANKS, "the size");
    messages(task);
    groups(task);
    if (hythe_task_rank(task) == 0)
        spawning(task, words[0]);
    else
        full_inbox(task);
    exits(task);
    check(hythe_task_set_kept_bytes_max(task, 1), "limit");
    printf("task %d is done\n", hythe_task_rank(task));
    if (hythe_task_rank(task) == 0)
        hythe_task_close(task);
    return 0;
}
