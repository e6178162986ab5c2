/*
 * The least that a program does which publishes: its size is a row of `hythe bench ipc`.
 *
 * Compiled for the run, never started.
 *
 * Usage: publishes POOL CHANNEL TEXT
 */
#include <hythe.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_publisher *publisher;
    struct hythe_lease *lease;
    void *data;

    if (argc != 4) {
        fprintf(stderr, "usage: publishes POOL CHANNEL TEXT\n");
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[1];
    if (hythe_pool_open_or_create(&options, &pool) < 0 ||
        hythe_node_join(pool, "publishes", &node) < 0 ||
        hythe_publisher_open(node, argv[2], NULL, &publisher) < 0 ||
        hythe_publisher_lease(publisher, strlen(argv[3]), &lease) < 0 ||
        hythe_lease_data(lease, &data) < 0) {
        fprintf(stderr, "publishes: %s\n", hythe_last_error());
        return 1;
    }
    memcpy(data, argv[3], strlen(argv[3]));
    if (hythe_publisher_publish(publisher, lease, strlen(argv[3]), NULL) < 0) {
        fprintf(stderr, "publishes: %s\n", hythe_last_error());
        return 1;
    }
    hythe_publisher_close(publisher);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return 0;
}
