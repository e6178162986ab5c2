/*
 * The process's side: calls METHOD_SUMMARIZE of the core, and serves it for the core.
 *
 *   linux [POOL]
 *
 * Never waits longer than a minute for the core.
 */
#include <hythe.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>

#include "summary.h"
#include "telemetry.pb.h"

static const uint64_t TIMEOUT_NS = 60 * HYTHE_SECOND_NS;

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, hythe_strerror(result), hythe_last_error());
        exit(1);
    }
    return result;
}

static int serve_summarize(void *context, const struct hythe_rpc_request *request,
                           struct hythe_rpc_reply *reply)
{
    (void)context;
    return summarize(request->argument, request->argument_bytes, reply->result, reply->capacity,
                     &reply->bytes);
}

static void print(const char *who, const uint8_t *bytes, size_t length)
{
    telemetry_Summary summary = telemetry_Summary_init_zero;
    pb_istream_t in = pb_istream_from_buffer(bytes, length);
    if (!pb_decode(&in, telemetry_Summary_fields, &summary)) {
        fprintf(stderr, "%s sent no summary: %s\n", who, PB_GET_ERROR(&in));
        exit(1);
    }
    printf("%s: window %u: %u samples, %d to %d, sum %lld\n", who, (unsigned)summary.window,
           (unsigned)summary.count, (int)summary.least, (int)summary.most, (long long)summary.sum);
}

static void call_core(struct hythe_client *client, pb_size_t samples)
{
    telemetry_Window window = telemetry_Window_init_zero;
    uint8_t argument[telemetry_Window_size];
    uint8_t result[telemetry_Summary_size];
    pb_ostream_t out = pb_ostream_from_buffer(argument, sizeof argument);
    size_t length;
    int code;
    window.number = samples;
    for (window.samples_count = 0; window.samples_count < samples; window.samples_count++)
        window.samples[window.samples_count] = 100 - 10 * (int32_t)window.samples_count;
    (void)pb_encode(&out, telemetry_Window_fields, &window);
    code = hythe_rpc_call(client, METHOD_SUMMARIZE, argument, out.bytes_written, result,
                          sizeof result, &length, TIMEOUT_NS);
    if (code == HYTHE_EFAILED) {
        printf("core: failed with %u\n", (unsigned)length);
        return;
    }
    check(code, "call");
    print("core", result, length);
}

/* The core calls us before it answers. */
static void be_called(struct hythe_client *client, struct hythe_server *server)
{
    const struct hythe_rpc_method table[] = {
        {METHOD_SUMMARIZE, 0, telemetry_Summary_size, serve_summarize, NULL}};
    uint8_t bytes[telemetry_Summary_size];
    struct hythe_sample *result;
    uint64_t call;
    size_t length;
    check(hythe_rpc_begin(client, METHOD_ASK_LINUX, NULL, 0, TIMEOUT_NS, &call), "begin");
    check(hythe_rpc_serve(server, table, 1, TIMEOUT_NS), "serve");
    if (check(hythe_rpc_wait(client, call, TIMEOUT_NS, &result, NULL), "wait") == 0)
        exit(1);
    length = hythe_sample_length(result);
    check(hythe_sample_read(result, 0, bytes, length), "read");
    hythe_sample_release(result);
    print("linux", bytes, length);
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_client *client;
    struct hythe_server *server;
    hythe_pool_options_init(&options, sizeof options);
    options.name = argc > 1 ? argv[1] : "default";
    check(hythe_pool_open(&options, &pool), "pool");
    check(hythe_node_join(pool, "telemetry", &node), "join");
    check(hythe_client_open(node, "core/calls", NULL, &client), "client");
    check(hythe_server_open(node, "core/asks", NULL, &server), "server");
    call_core(client, 32);
    call_core(client, 1);
    call_core(client, 0);
    be_called(client, server);
    hythe_server_close(server);
    hythe_client_close(client);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    return 0;
}
