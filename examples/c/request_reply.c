/*
 * Requests and replies from C.
 *
 *   request_reply POOL         client and server in one process, with a thread each
 *   request_reply serve POOL   one of them: answers three requests
 *   request_reply ask POOL     the other: asks three times
 *
 * The two may be on different hosts, where agents connect these (`hythe host`). The server
 * answers a text in capital letters, and does not answer what is empty. Built and run by the
 * tests of bindings/c. Never waits longer than ten seconds for anybody.
 */
#include <hythe.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t TIMEOUT_NS = 10 * HYTHE_SECOND_NS;

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static void answer(struct hythe_server *server, struct hythe_request *request)
{
    char text[64];
    struct hythe_lease *lease;
    size_t i, length = hythe_sample_length(hythe_request_sample(request));
    if (length == 0 || length > sizeof text) {
        /* The client is told. */
        hythe_request_release(request);
        return;
    }
    check(hythe_sample_read(hythe_request_sample(request), 0, text, length), "read");
    for (i = 0; i < length; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
    check(hythe_server_lease(server, length, &lease), "lease");
    check(hythe_lease_write(lease, 0, text, length), "write");
    check(hythe_request_reply(request, lease, length), "reply");
}

static void *serve(void *argument)
{
    struct hythe_server *server = argument;
    struct hythe_request *request;
    int served;
    for (served = 0; served < 3; served++) {
        if (check(hythe_server_take(server, TIMEOUT_NS, &request), "take") == 0)
            break;
        answer(server, request);
    }
    return NULL;
}

static void ask(struct hythe_client *client, const char *question)
{
    struct hythe_lease *lease;
    struct hythe_sample *reply;
    char text[64];
    size_t length = strlen(question);
    int result;
    check(hythe_client_lease(client, length, &lease), "lease");
    check(hythe_lease_write(lease, 0, question, length), "write");
    result = hythe_client_call(client, lease, length, TIMEOUT_NS, &reply);
    if (result == HYTHE_EUNANSWERED) {
        printf("\"%s\": no answer\n", question);
        return;
    }
    check(result, "call");
    length = hythe_sample_length(reply);
    if (length > sizeof text - 1)
        length = sizeof text - 1;
    check(hythe_sample_read(reply, 0, text, length), "read");
    text[length] = '\0';
    printf("\"%s\": %s\n", question, text);
    hythe_sample_release(reply);
}

static struct hythe_server *open_server(struct hythe_node *node)
{
    struct hythe_server *server;
    check(hythe_server_open(node, "capitals", NULL, &server), "server");
    return server;
}

static void ask_three_times(struct hythe_node *node)
{
    struct hythe_client *client;
    check(hythe_client_open(node, "capitals", NULL, &client), "client");
    ask(client, "hello");
    ask(client, "");
    ask(client, "good bye");
    hythe_client_close(client);
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_server *server;
    const char *role = argc == 3 ? argv[1] : "both";
    pthread_t thread;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: %s [serve|ask] POOL\n", argv[0]);
        return 2;
    }
    hythe_pool_options_init(&options, sizeof options);
    options.name = argv[argc - 1];
    check(hythe_pool_open_or_create(&options, &pool), "pool");
    check(hythe_node_join(pool, "request_reply", &node), "join");
    if (strcmp(role, "serve") == 0) {
        server = open_server(node);
        serve(server);
        hythe_server_close(server);
    } else if (strcmp(role, "ask") == 0) {
        ask_three_times(node);
    } else {
        server = open_server(node);
        if (pthread_create(&thread, NULL, serve, server) != 0)
            return 1;
        ask_three_times(node);
        pthread_join(thread, NULL);
        hythe_server_close(server);
    }
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return 0;
}
