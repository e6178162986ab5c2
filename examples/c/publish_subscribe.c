/*
 * Publish and subscribe from C.
 *
 *   publish_subscribe subscribe POOL CHANNEL COUNT   prints COUNT messages
 *   publish_subscribe publish POOL CHANNEL COUNT     publishes COUNT messages, in place
 *
 * Start any number of each, in any order; `hythe sub` and `hythe pub` serve as other ends, too.
 * Built and run by the tests of bindings/c. Never waits longer than ten seconds for anybody.
 */
#include <hythe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t TIMEOUT_NS = 10 * HYTHE_SECOND_NS;

/* Every call that fails has left a message. */
static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static struct hythe_node *join(const char *pool_name, const char *name)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    hythe_pool_options_init(&options, sizeof options);
    options.name = pool_name;
    check(hythe_pool_open_or_create(&options, &pool), "pool");
    check(hythe_node_join(pool, name, &node), "join");
    /* The node keeps what it needs of it. */
    hythe_pool_close(pool);
    return node;
}

static void subscribe(struct hythe_node *node, const char *channel, int count)
{
    struct hythe_subscriber_options options;
    struct hythe_subscriber *subscriber;
    struct hythe_sample *sample;
    char text[64];
    size_t length;

    hythe_subscriber_options_init(&options, sizeof options);
    options.when_full = HYTHE_BLOCK;
    options.block_ms = 10000;
    check(hythe_subscriber_open(node, channel, &options, &subscriber), "subscriber");
    for (; count > 0; count--) {
        if (check(hythe_subscriber_take(subscriber, TIMEOUT_NS, &sample), "take") == 0) {
            fprintf(stderr, "nobody has published for ten seconds\n");
            exit(1);
        }
        /* Copied out: whoever may write the pool can't change the copy. */
        length = hythe_sample_length(sample);
        if (length > sizeof text - 1)
            length = sizeof text - 1;
        check(hythe_sample_read(sample, 0, text, length), "read");
        text[length] = '\0';
        hythe_sample_release(sample);
        printf("%s\n", text);
    }
    hythe_subscriber_close(subscriber);
}

static void publish(struct hythe_node *node, const char *channel, int count)
{
    struct hythe_publisher_options options;
    struct hythe_publisher *publisher;
    struct hythe_lease *lease;
    void *data;
    int i, length;

    hythe_publisher_options_init(&options, sizeof options);
    /* As long as a subscriber may block: of both times, the shorter one counts. */
    options.send_timeout_ns = TIMEOUT_NS;
    check(hythe_publisher_open(node, channel, &options, &publisher), "publisher");
    if (check(hythe_publisher_wait_for_subscribers(publisher, 1, TIMEOUT_NS), "wait") == 0) {
        fprintf(stderr, "nobody subscribed within ten seconds\n");
        exit(1);
    }
    for (i = 0; i < count; i++) {
        check(hythe_publisher_lease(publisher, 64, &lease), "lease");
        check(hythe_lease_data(lease, &data), "data");
        /* Written where the subscriber will read it. */
        length = snprintf((char *)data, 64, "message %d", i);
        check(hythe_publisher_publish(publisher, lease, (size_t)length, NULL), "publish");
    }
    hythe_publisher_close(publisher);
}

int main(int argc, char **argv)
{
    struct hythe_node *node;
    if (argc != 5) {
        fprintf(stderr, "usage: %s subscribe|publish POOL CHANNEL COUNT\n", argv[0]);
        return 2;
    }
    node = join(argv[2], argv[1]);
    if (strcmp(argv[1], "subscribe") == 0)
        subscribe(node, argv[3], atoi(argv[4]));
    else
        publish(node, argv[3], atoi(argv[4]));
    hythe_node_leave(node);
    return 0;
}
