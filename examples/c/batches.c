/*
 * Many small messages from C: published and taken several at a time, numbered in the headroom in
 * front of their payload.
 *
 *   batches POOL
 *
 * Both ends are in this program, to keep it short; each could be anywhere. Built and run by the
 * tests of bindings/c. Never waits.
 */
#include <hythe.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 8

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static void publish(struct hythe_publisher *publisher, uint32_t first)
{
    struct hythe_published published = {sizeof published, 0, 0, 0, 0};
    struct hythe_message batch[BATCH];
    uint32_t i, number;
    char letter;
    for (i = 0; i < BATCH; i++) {
        number = first + i;
        letter = (char)('a' + number);
        check(hythe_publisher_lease(publisher, 1, &batch[i].lease), "lease");
        check(hythe_lease_write(batch[i].lease, 0, &letter, 1), "write");
        check(hythe_lease_write_headroom(batch[i].lease, 0, &number, sizeof number), "headroom");
        batch[i].bytes = 1;
    }
    /* Whatever comes of it: the leases are gone. */
    check(hythe_publisher_publish_batch(publisher, batch, BATCH, &published), "publish");
    printf("%u delivered, %u dropped\n", published.delivered, published.dropped);
}

static int take(struct hythe_subscriber *subscriber)
{
    struct hythe_sample *samples[BATCH];
    uint32_t number;
    char letter;
    int i, taken;
    taken = check(hythe_subscriber_try_take_batch(subscriber, samples, BATCH), "take");
    for (i = 0; i < taken; i++) {
        check(hythe_sample_read(samples[i], 0, &letter, 1), "read");
        check(hythe_sample_read_headroom(samples[i], 0, &number, sizeof number), "headroom");
        hythe_sample_release(samples[i]);
        printf("%u%c ", number, letter);
    }
    printf("- %d taken\n", taken);
    return taken;
}

int main(int argc, char **argv)
{
    struct hythe_pool_options pool_options;
    struct hythe_subscriber_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_subscriber *subscriber;
    struct hythe_publisher *publisher;
    if (argc != 2) {
        fprintf(stderr, "usage: %s POOL\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&pool_options, sizeof pool_options);
    pool_options.name = argv[1];
    check(hythe_pool_open_or_create(&pool_options, &pool), "pool");
    check(hythe_node_join(pool, "batches", &node), "join");
    hythe_subscriber_options_init(&options, sizeof options);
    options.depth = 16;
    check(hythe_subscriber_open(node, "letters", &options, &subscriber), "subscriber");
    check(hythe_publisher_open(node, "letters", NULL, &publisher), "publisher");
    publish(publisher, 0);
    publish(publisher, 8);
    /* The queue is full: what comes now passes by, and is counted. */
    publish(publisher, 16);
    while (take(subscriber) > 0)
        continue;
    hythe_publisher_close(publisher);
    hythe_subscriber_close(subscriber);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return 0;
}
