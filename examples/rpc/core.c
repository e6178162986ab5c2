/*
 * The core's side: stands in the place of rtos/apps/p1/methods.c. Serves METHOD_SUMMARIZE, and with
 * METHOD_ASK_LINUX calls the same method on Linux.
 */
#include <pb_encode.h>

#include "methods.h"
#include "summary.h"
#include "telemetry.pb.h"

#define WAIT_MS 1000u

static int serve_summarize(void *context, const struct hythe_rpc_request *request,
                           struct hythe_rpc_reply *reply)
{
    size_t bytes = 0;
    int error = summarize(request->argument, request->argument_bytes, reply->result,
                          reply->capacity, &bytes);

    (void)context;
    reply->bytes = (uint32_t)bytes;
    return error;
}

static int serve_ask_linux(void *context, const struct hythe_rpc_request *request,
                           struct hythe_rpc_reply *reply)
{
    struct methods *methods = context;
    telemetry_Window window = {.number = 7, .samples_count = 3, .samples = {-1000000, 5, 0}};
    uint8_t argument[telemetry_Window_size];
    pb_ostream_t out = pb_ostream_from_buffer(argument, sizeof argument);

    /* As large as any window can be. */
    (void)pb_encode(&out, telemetry_Window_fields, &window);
    if (hythe_rpc_call(&methods->client, METHOD_SUMMARIZE, argument, (uint32_t)out.bytes_written,
                       reply->result, reply->capacity, &reply->bytes,
                       request->timeout_ms) != HYTHE_OK) {
        reply->bytes = 0;
        return ERROR_NO_REPLY;
    }
    return 0;
}

void methods_run(void *argument)
{
    struct methods *methods = argument;
    const struct hythe_rpc_method table[] = {
        {METHOD_SUMMARIZE, serve_summarize, NULL},
        {METHOD_ASK_LINUX, serve_ask_linux, methods},
    };

    for (;;) {
        (void)hythe_rpc_serve(methods->calls, table, 2, WAIT_MS);
    }
}
