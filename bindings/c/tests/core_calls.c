/*
 * Calls in C, both ways, with a core that runs p1 (rtos/apps/p1/README.md): each code, sixteen
 * calls outstanding, and methods that the core calls.
 *
 *   core_calls POOL CALLS ASKS
 *
 * CALLS and ASKS are the channels of the core.
 *
 * Run by the tests of bindings/c, beside a core. Never waits longer than two minutes for anybody.
 */
#include <hythe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REVERSE = 1,
    HOLD = 2,
    FAIL = 3,
    FILL = 4,
    SLEEP = 5,
    ASK = 6,
    HELD = 16,
    /* Ours, which the core calls. */
    UPPER = 1,
    BROKEN = 2
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

/* Calls with space for a result of 8 bytes. */
static void call(struct hythe_client *client, uint32_t method, const void *argument, size_t bytes,
                 uint64_t timeout_ns)
{
    char result[8];
    size_t length;
    int code =
        hythe_rpc_call(client, method, argument, bytes, result, sizeof result, &length, timeout_ns);
    if (code == 0)
        printf("%.*s\n", (int)length, result);
    else
        printf("%s %u\n", hythe_strerror(code), (unsigned)length);
}

static void call_each(struct hythe_client *client)
{
    const uint32_t seven = 7;
    const uint32_t hundred = 100;
    const uint32_t late_ms = 500;
    call(client, REVERSE, "abc", 3, TIMEOUT_NS);
    call(client, REVERSE, NULL, 0, TIMEOUT_NS);
    call(client, 99, "abc", 3, TIMEOUT_NS);
    call(client, FAIL, &seven, sizeof seven, TIMEOUT_NS);
    call(client, FILL, &hundred, sizeof hundred, TIMEOUT_NS);
    call(client, SLEEP, &late_ms, sizeof late_ms, HYTHE_SECOND_NS / 50);
    call(client, 0, "abc", 3, TIMEOUT_NS);
    call(client, 0x80000000u, "abc", 3, TIMEOUT_NS);
}

/* All are outstanding before the first is waited for; arguments and results in place. */
static void hold(struct hythe_client *client)
{
    uint64_t calls[HELD];
    struct hythe_sample *result;
    struct hythe_lease *lease;
    size_t detail;
    char letter;
    int i;
    for (i = 0; i < HELD; i++) {
        letter = (char)('a' + i);
        check(hythe_rpc_lease(client, 1, &lease), "lease");
        check(hythe_lease_write(lease, HYTHE_RPC_HEADER_BYTES, &letter, 1), "write");
        check(hythe_rpc_begin_in(client, HOLD, lease, 1, TIMEOUT_NS, &calls[i]), "begin");
        if (i == 0)
            printf("%d result yet\n", hythe_rpc_wait(client, calls[i], 1, &result, NULL));
    }
    for (i = 0; i < HELD; i++) {
        check(hythe_rpc_wait(client, calls[i], TIMEOUT_NS, &result, &detail), "wait");
        check(hythe_sample_read(result, 0, &letter, 1), "read");
        hythe_sample_release(result);
        putchar(letter);
    }
    printf(" %u\n", (unsigned)detail);
}

static int upper(void *context, const struct hythe_rpc_request *request,
                 struct hythe_rpc_reply *reply)
{
    size_t i;
    ++*(int *)context;
    if (request->argument_bytes == 1)
        return request->argument[0];
    reply->bytes = request->argument_bytes;
    for (i = 0; i < reply->bytes && reply->bytes <= reply->capacity; i++)
        reply->result[i] = (uint8_t)(request->argument[i] & ~0x20);
    return 0;
}

static int broken(void *context, const struct hythe_rpc_request *request,
                  struct hythe_rpc_reply *reply)
{
    (void)context;
    (void)request;
    (void)reply;
    return -1;
}

/* The core calls this method of ours, and says what came of it. */
static void ask(struct hythe_client *client, struct hythe_server *server, uint32_t method,
                const char *argument)
{
    static int served;
    const struct hythe_rpc_method table[] = {
        {UPPER, 0, 4, upper, &served},
        {BROKEN, 0, 4, broken, NULL},
    };
    /* Method, time-out and capacity. */
    unsigned char question[64] = {0, 0, 0, 0, 0xC0, 0xD4, 1, 0, 8, 0, 0, 0};
    unsigned char outcome[64] = {0};
    struct hythe_sample *result;
    uint64_t number;
    size_t length = strlen(argument);
    int code;
    question[0] = (unsigned char)method;
    memcpy(question + 12, argument, length);
    check(hythe_rpc_begin(client, ASK, question, 12 + length, TIMEOUT_NS, &number), "begin");
    code = hythe_rpc_serve(server, table, 2, TIMEOUT_NS);
    check(hythe_rpc_wait(client, number, TIMEOUT_NS, &result, NULL), "outcome");
    length = hythe_sample_length(result);
    check(hythe_sample_read(result, 0, outcome, length), "read");
    hythe_sample_release(result);
    printf("%d, %d, %u, \"%.*s\", %d served\n", code, (int)(signed char)outcome[0],
           (unsigned)outcome[4], (int)(length - 8), outcome + 8, served);
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_client *client;
    struct hythe_server *server;
    if (argc != 4) {
        fprintf(stderr, "usage: %s POOL CALLS ASKS\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[1];
    check(hythe_pool_open(&options, &pool), "pool");
    check(hythe_node_join(pool, "core_calls", &node), "join");
    check(hythe_client_open(node, argv[2], NULL, &client), "client");
    check(hythe_server_open(node, argv[3], NULL, &server), "server");
    call_each(client);
    hold(client);
    ask(client, server, UPPER, "abcd");
    ask(client, server, UPPER, "abcde");
    ask(client, server, UPPER, "\x09");
    ask(client, server, BROKEN, "abc");
    ask(client, server, 3, "abc");
    printf("%d\n", hythe_rpc_serve(server, NULL, 0, 1));
    hythe_server_close(server);
    hythe_client_close(client);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return 0;
}
