/*
 * A sample of core `left` cannot be seen by core `right`: it is refused, and copied where the
 * program says so. Prints "copied", or the line that was wrong. Run by cores.rs, which starts the
 * cores.
 */
#include "expect.h"
#include <string.h>

#define LONG_NS (120 * HYTHE_SECOND_NS)

int main(void)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_publisher *to_left, *to_right;
    struct hythe_subscriber *from_left, *from_right;
    struct hythe_sample *sample, *again, *copy;
    struct hythe_statistics statistics;
    char bytes[6];
    EXPECT(hythe_pool_options_init(&options, sizeof options) == 0);
    options.name = "default";
    EXPECT(hythe_pool_open_or_create(&options, &pool) == 0);
    EXPECT(hythe_node_join(pool, "between", &node) == 0);
    EXPECT(hythe_subscriber_open(node, "left/pong", NULL, &from_left) == 0);
    EXPECT(hythe_subscriber_open(node, "right/pong", NULL, &from_right) == 0);
    EXPECT(hythe_publisher_open(node, "left/ping", NULL, &to_left) == 0);
    EXPECT(hythe_publisher_open(node, "right/ping", NULL, &to_right) == 0);
    EXPECT(hythe_publisher_publish_copy(to_left, "to you", 6, NULL) == 1);
    EXPECT(hythe_subscriber_take(from_left, LONG_NS, &sample) == 1);
    EXPECT(hythe_sample_part(sample, 0, 6, &again) == 0);
    EXPECT(hythe_publisher_forward(to_right, again, NULL) == HYTHE_ECORE);
    EXPECT(strstr(hythe_last_error(), "cannot be seen") != NULL);
    EXPECT(hythe_publisher_forward_copy(to_right, sample, NULL) == 1);
    EXPECT(hythe_subscriber_take(from_right, LONG_NS, &copy) == 1);
    EXPECT(hythe_sample_length(copy) == 6 && hythe_sample_read(copy, 0, bytes, 6) == 0);
    EXPECT(memcmp(bytes, "to you", 6) == 0);
    statistics.size = sizeof statistics;
    EXPECT(hythe_publisher_statistics(to_right, &statistics) == 0);
    EXPECT(statistics.messages == 1 && statistics.copies == 1 && statistics.copied_bytes == 6);
    EXPECT(hythe_publisher_statistics(to_left, &statistics) == 0 && statistics.copies == 0);
    hythe_sample_release(sample);
    hythe_sample_release(copy);
    hythe_publisher_close(to_left);
    hythe_publisher_close(to_right);
    hythe_subscriber_close(from_left);
    hythe_subscriber_close(from_right);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    puts("copied");
    return 0;
}
