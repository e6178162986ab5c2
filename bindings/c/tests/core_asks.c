/*
 * A server in C that a core asks: takes through a wait set, replies, gives up, and is refused what
 * the core cannot have. The core's program asks what comes over `ping` with a time-out and a number
 * in front, and publishes the outcome on `pong` (rtos/apps/decoder/README.md).
 *
 *   core_asks POOL
 *
 * Run by the tests of bindings/c, beside a core. Never waits longer than two minutes for anybody.
 */
#include <hythe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFIX = 8,
    QUERY = 1
};

static const uint64_t TIMEOUT_NS = 120 * HYTHE_SECOND_NS;

struct ports {
    struct hythe_node *node;
    struct hythe_publisher *ping;
    struct hythe_subscriber *pong;
    struct hythe_server *query;
    struct hythe_wait_set *wait_set;
};

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static void ask(struct ports *ports, const char *question)
{
    unsigned char message[64] = {0xC0, 0xD4, 0x01, 0x00, 7, 0, 0, 0};
    size_t length = strlen(question);
    memcpy(message + PREFIX, question, length);
    check(hythe_publisher_publish_copy(ports->ping, message, PREFIX + length, NULL), "publish");
}

/* The next request, or NULL if an echo came first: then the core had not seen the server yet. */
static struct hythe_request *request_or_echo(struct ports *ports)
{
    struct hythe_ready ready[1];
    struct hythe_request *request = NULL;
    struct hythe_sample *echo;
    int looks;
    for (looks = 0; looks < 12000; looks++) {
        check(hythe_wait_set_wait(ports->wait_set, HYTHE_SECOND_NS / 100, ready, 1), "wait");
        if (check(hythe_server_try_take(ports->query, &request), "request") == 1)
            return request;
        if (check(hythe_subscriber_try_take(ports->pong, &echo), "echo") == 1) {
            hythe_sample_release(echo);
            return NULL;
        }
    }
    fprintf(stderr, "neither a request nor an echo\n");
    exit(1);
}

static struct hythe_request *ask_and_take(struct ports *ports, const char *question)
{
    struct hythe_request *request;
    do {
        ask(ports, question);
        request = request_or_echo(ports);
    } while (request == NULL);
    return request;
}

static void print_outcome(struct ports *ports)
{
    unsigned char outcome[64] = {0};
    struct hythe_sample *sample;
    size_t length;
    if (check(hythe_subscriber_take(ports->pong, TIMEOUT_NS, &sample), "outcome") == 0)
        exit(1);
    length = hythe_sample_length(sample);
    if (length > sizeof outcome)
        length = sizeof outcome;
    check(hythe_sample_read(sample, 0, outcome, length), "read");
    hythe_sample_release(sample);
    printf("%d \"%.*s\"\n", (int)(signed char)outcome[0], (int)(length - PREFIX), outcome + PREFIX);
}

static void serve(struct ports *ports)
{
    struct hythe_request *request = ask_and_take(ports, "what");
    struct hythe_lease *lease;
    int result;
    check(hythe_server_lease(ports->query, 4, &lease), "lease");
    check(hythe_lease_write(lease, 0, "that", 4), "write");
    check(hythe_request_reply(request, lease, 4), "reply");
    print_outcome(ports);

    check(hythe_request_reply_in_kind(ask_and_take(ports, "same")), "in kind");
    print_outcome(ports);

    hythe_request_release(ask_and_take(ports, "never"));
    print_outcome(ports);

    request = ask_and_take(ports, "elsewhere");
    check(hythe_node_lease(ports->node, 4, &lease), "lease");
    result = hythe_request_reply(request, lease, 4);
    printf("%s\n", hythe_strerror(result));
    print_outcome(ports);
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct ports ports;
    if (argc != 2) {
        fprintf(stderr, "usage: %s POOL\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[1];
    check(hythe_pool_open(&options, &pool), "pool");
    check(hythe_node_join(pool, "core_asks", &ports.node), "join");
    check(hythe_subscriber_open(ports.node, "pong", NULL, &ports.pong), "subscriber");
    check(hythe_publisher_open(ports.node, "ping", NULL, &ports.ping), "publisher");
    check(hythe_server_open(ports.node, "query", NULL, &ports.query), "server");
    check(hythe_wait_set_open(ports.node, &ports.wait_set), "wait set");
    check(hythe_wait_set_attach_server(ports.wait_set, ports.query, QUERY), "attach");
    serve(&ports);
    hythe_wait_set_close(ports.wait_set);
    hythe_server_close(ports.query);
    hythe_publisher_close(ports.ping);
    hythe_subscriber_close(ports.pong);
    hythe_node_leave(ports.node);
    hythe_pool_close(pool);
    return 0;
}
