/*
 * Events from C: a listener hears that something happened, once, however often it was raised.
 *
 *   events POOL          both ends in one program
 *   events listen POOL   one end: prints the events of one wait
 *   events raise POOL    the other: raises two, as soon as somebody listens
 *
 * The two ends may be on different hosts, if agents connect these (`hythe host`). Built and run by
 * the tests of bindings/c. Never waits longer than ten seconds for anybody.
 */
#include <hythe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t TIMEOUT_NS = 10 * HYTHE_SECOND_NS;

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

/* 0: nothing happened. */
static int hear(struct hythe_listener *listener, uint64_t timeout_ns)
{
    uint64_t events;
    if (check(hythe_listener_wait(listener, timeout_ns, &events), "wait") == 0) {
        printf("nothing\n");
        return 0;
    }
    if (events & HYTHE_EVENT(DOOR))
        printf("door\n");
    if (events & HYTHE_EVENT(WINDOW))
        printf("window\n");
    return 1;
}

static int listen(struct hythe_node *node)
{
    struct hythe_listener *listener;
    int heard;
    check(hythe_listener_open(node, "house", &listener), "listener");
    heard = hear(listener, TIMEOUT_NS);
    hythe_listener_close(listener);
    return heard ? 0 : 1;
}

static int raise_both(struct hythe_node *node)
{
    static const struct timespec pause = {0, 20 * 1000 * 1000};
    struct hythe_notifier *notifier;
    int told = 0, attempts;
    check(hythe_notifier_open(node, "house", &notifier), "notifier");
    /* Nobody is told of what is raised before anybody listens. */
    for (attempts = 0; told == 0 && attempts < 500; attempts++) {
        told = check(hythe_notifier_notify(notifier, HYTHE_EVENT(DOOR) | HYTHE_EVENT(WINDOW)),
                     "notify");
        if (told == 0)
            nanosleep(&pause, NULL);
    }
    hythe_notifier_close(notifier);
    printf("%d told\n", told);
    return told > 0 ? 0 : 1;
}

static int both(struct hythe_node *node)
{
    struct hythe_listener *listener;
    struct hythe_notifier *notifier;
    check(hythe_listener_open(node, "house", &listener), "listener");
    check(hythe_notifier_open(node, "house", &notifier), "notifier");

    printf("%d told\n", check(hythe_notifier_notify(notifier, HYTHE_EVENT(DOOR)), "notify"));
    check(hythe_notifier_notify(notifier, HYTHE_EVENT(DOOR) | HYTHE_EVENT(WINDOW)), "notify");
    hear(listener, TIMEOUT_NS);
    hear(listener, 10 * HYTHE_MILLISECOND_NS);

    hythe_notifier_close(notifier);
    hythe_listener_close(listener);
    return 0;
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    const char *role = argc == 3 ? argv[1] : "both";
    int result;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: %s [listen|raise] POOL\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[argc - 1];
    check(hythe_pool_open_or_create(&options, &pool), "pool");
    check(hythe_node_join(pool, "events", &node), "join");
    if (strcmp(role, "listen") == 0)
        result = listen(node);
    else if (strcmp(role, "raise") == 0)
        result = raise_both(node);
    else
        result = both(node);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return result;
}
