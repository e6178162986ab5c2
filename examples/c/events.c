/*
 * Events from C: a listener hears that something happened, once, however often it was raised.
 *
 *   events POOL
 *
 * Built and run by the tests of bindings/c. Never waits longer than ten seconds for anybody.
 */
#include <hythe.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    DOOR = 3,
    WINDOW = 17
};

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static void hear(struct hythe_listener *listener)
{
    uint64_t events;
    if (check(hythe_listener_wait(listener, 10 * HYTHE_MILLISECOND_NS, &events), "wait") == 0) {
        printf("nothing\n");
        return;
    }
    if (events & HYTHE_EVENT(DOOR))
        printf("door\n");
    if (events & HYTHE_EVENT(WINDOW))
        printf("window\n");
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_listener *listener;
    struct hythe_notifier *notifier;
    if (argc != 2) {
        fprintf(stderr, "usage: %s POOL\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[1];
    check(hythe_pool_open_or_create(&options, &pool), "pool");
    check(hythe_node_join(pool, "events", &node), "join");
    check(hythe_listener_open(node, "house", &listener), "listener");
    check(hythe_notifier_open(node, "house", &notifier), "notifier");

    printf("%d told\n", check(hythe_notifier_notify(notifier, HYTHE_EVENT(DOOR)), "notify"));
    check(hythe_notifier_notify(notifier, HYTHE_EVENT(DOOR) | HYTHE_EVENT(WINDOW)), "notify");
    hear(listener);
    hear(listener);

    hythe_notifier_close(notifier);
    hythe_listener_close(listener);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return 0;
}
