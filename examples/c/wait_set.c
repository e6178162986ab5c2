/*
 * One wait for channels, events and a pipe, from C; with poll(), as in an event loop that is there
 * already.
 *
 *   wait_set POOL
 *
 * Built and run by the tests of bindings/c. Never waits longer than ten seconds for anybody.
 */
#include <hythe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MESSAGES = 1,
    BELLS = 2,
    PIPE = 3
};

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

struct ends {
    struct hythe_subscriber *subscriber;
    struct hythe_listener *listener;
    int pipe;
};

static void take(const struct ends *ends, uint64_t key)
{
    struct hythe_sample *sample;
    uint64_t events;
    char byte;
    switch (key) {
    case MESSAGES:
        while (check(hythe_subscriber_try_take(ends->subscriber, &sample), "take") == 1) {
            printf("message of %u bytes\n", (unsigned)hythe_sample_length(sample));
            hythe_sample_release(sample);
        }
        break;
    case BELLS:
        if (check(hythe_listener_try_take(ends->listener, &events), "events") == 1)
            printf("events %#x\n", (unsigned)events);
        break;
    case PIPE:
        if (read(ends->pipe, &byte, 1) == 1)
            printf("byte %c\n", byte);
        break;
    }
}

/* What is ready, until nothing is: only then the descriptor waits for something new. */
static int drain(struct hythe_wait_set *wait_set, const struct ends *ends)
{
    struct hythe_ready ready[4];
    int i, count, all = 0;
    while ((count = check(hythe_wait_set_wait(wait_set, 0, ready, 4), "wait")) > 0) {
        for (i = 0; i < count; i++)
            take(ends, ready[i].key);
        all += count;
    }
    return all;
}

static void await(struct hythe_wait_set *wait_set, const struct ends *ends)
{
    struct pollfd descriptor;
    descriptor.fd = check(hythe_wait_set_fd(wait_set), "descriptor");
    descriptor.events = POLLIN;
    while (drain(wait_set, ends) == 0) {
        if (poll(&descriptor, 1, 10000) != 1) {
            fprintf(stderr, "nothing came for ten seconds\n");
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_publisher *publisher;
    struct hythe_notifier *notifier;
    struct hythe_wait_set *wait_set;
    struct ends ends;
    int pipes[2];
    if (argc != 2 || pipe(pipes) != 0) {
        fprintf(stderr, "usage: %s POOL\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[1];
    check(hythe_pool_open_or_create(&options, &pool), "pool");
    check(hythe_node_join(pool, "wait set", &node), "join");
    ends.pipe = pipes[0];
    check(hythe_subscriber_open(node, "messages", NULL, &ends.subscriber), "subscriber");
    check(hythe_listener_open(node, "bells", &ends.listener), "listener");
    check(hythe_wait_set_open(node, &wait_set), "wait set");
    check(hythe_wait_set_attach_subscriber(wait_set, ends.subscriber, MESSAGES), "attach");
    check(hythe_wait_set_attach_listener(wait_set, ends.listener, BELLS), "attach");
    check(hythe_wait_set_attach_fd(wait_set, ends.pipe, HYTHE_READABLE, PIPE), "attach");

    /* The other side: any process, any thread. */
    check(hythe_publisher_open(node, "messages", NULL, &publisher), "publisher");
    check(hythe_notifier_open(node, "bells", &notifier), "notifier");
    check(hythe_publisher_publish_copy(publisher, "12345", 5, NULL), "publish");
    await(wait_set, &ends);
    check(hythe_notifier_notify(notifier, HYTHE_EVENT(0) | HYTHE_EVENT(4)), "notify");
    await(wait_set, &ends);
    if (write(pipes[1], "x", 1) != 1)
        return 1;
    await(wait_set, &ends);
    printf("%d detached\n", check(hythe_wait_set_detach(wait_set, PIPE), "detach"));

    hythe_wait_set_close(wait_set);
    hythe_notifier_close(notifier);
    hythe_publisher_close(publisher);
    hythe_listener_close(ends.listener);
    hythe_subscriber_close(ends.subscriber);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    close(pipes[0]);
    close(pipes[1]);
    return 0;
}
