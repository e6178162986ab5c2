/* The image of `p1`: one link, and its tasks (tasks.c). See README.md for the endpoints. */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "hythe_freertos.h"
#include "hythe_rt.h"
#include "link_start.h"
#include "methods.h"
#include "tasks.h"

enum {
    ENDPOINT_CALLS = 0,
    ENDPOINT_ASKS = 1,
    ENDPOINT_CONTROL = 2,
    ENDPOINT_PING = 3,
    ENDPOINT_PONG = 4,
    ENDPOINT_COUNT = 5,
    ENDPOINT_SERVICES = 6,
    ENDPOINT_MESSAGES = 7,
    ENDPOINTS = 8
};

/* A header and 64 KiB. */
#define CALL_BYTES_MAX (32u + (64u << 10))

/* Longer than an agent takes on a loaded machine. */
#define AGENT_MS 60000u

/* One slot of the largest class of every board, without its headroom. */
#define ECHO_BYTES_MAX (1u << 20)
/* A number and an argument. */
#define COUNT_BYTES_MAX (4u + HYTHE_TASK_ARGUMENT_BYTES)

static const struct hythe_endpoint_config endpoints[ENDPOINTS] = {
    [ENDPOINT_CALLS] = {"core/calls", HYTHE_TO_CORE, CALL_BYTES_MAX, 0, 0, HYTHE_KIND_REQUESTS},
    [ENDPOINT_ASKS] = {"core/asks", HYTHE_FROM_CORE, CALL_BYTES_MAX, 0, 0, HYTHE_KIND_REQUESTS},
    [ENDPOINT_SERVICES] = {HYTHE_SERVICES_ENDPOINT, HYTHE_FROM_CORE, HYTHE_SERVICES_BYTES,
                           HYTHE_SERVICES_TYPE, 0, HYTHE_KIND_REQUESTS},
    [ENDPOINT_MESSAGES] = {HYTHE_MESSAGES_ENDPOINT, HYTHE_FROM_CORE, HYTHE_SERVICES_BYTES,
                           HYTHE_SERVICES_TYPE, 0, HYTHE_KIND_REQUESTS},
    [ENDPOINT_CONTROL] = {"core/control", HYTHE_TO_CORE, HYTHE_CONTROL_BYTES, 0, 0,
                          HYTHE_KIND_REQUESTS},
    [ENDPOINT_PING] = {"ping", HYTHE_TO_CORE, ECHO_BYTES_MAX, 0, 0, HYTHE_KIND_MESSAGES},
    [ENDPOINT_PONG] = {"pong", HYTHE_FROM_CORE, ECHO_BYTES_MAX, 0, 0, HYTHE_KIND_MESSAGES},
    [ENDPOINT_COUNT] = {"count", HYTHE_FROM_CORE, COUNT_BYTES_MAX, 0, 0, HYTHE_KIND_MESSAGES},
};

static struct hythe_freertos freertos;
static struct hythe_port port;
static struct hythe_link core_link;
static struct methods methods;
static struct segments segments;
static struct objects objects;
static struct work work;

BaseType_t app_bell_from_isr(void)
{
    return hythe_freertos_bell_from_isr(&freertos);
}

/* Nothing at start can fail but by our own mistake. */
static void must(int good)
{
    if (!good) {
        board_fail(__FILE__, __LINE__);
    }
}

static void start_services(const struct board *board)
{
    const struct hythe_services_config config = {
        .endpoint = hythe_link_endpoint(&core_link, ENDPOINT_SERVICES),
        .requests = segments.requests,
        .request_count = SEGMENTS_CALLS_MAX,
        .segments = board->segments,
        .segments_bytes = board->segments_bytes,
        .messages = hythe_link_endpoint(&core_link, ENDPOINT_MESSAGES),
        .message_requests = segments.message_requests,
        .message_request_count = SEGMENTS_CALLS_MAX,
        .timeout_ms = AGENT_MS,
    };

    must(hythe_services_start(&segments.services, &config) == 0);
    methods.segments = &segments;
    objects.services = &segments.services;
    methods.objects = &objects;
    work.objects = &objects;
}

void app_start(const struct board *board)
{
    static const char ready[] = "p1: ready\n";
    const struct hythe_link_config config = {
        .link = board->link,
        .link_bytes = board->link_bytes,
        .region = board->region,
        .region_bytes = board->region_bytes,
        .name = "p1",
        .endpoints = endpoints,
        .endpoint_count = ENDPOINTS,
        .sleep_looks = board->sleep_looks,
        .port = &port,
    };

    hythe_freertos_start(&freertos, board_ring, &port);
    port.clean = board->clean;
    port.invalidate = board->invalidate;
    start_link(&core_link, &config);
    methods.calls = hythe_link_endpoint(&core_link, ENDPOINT_CALLS);
    must(hythe_client_start(&methods.client, hythe_link_endpoint(&core_link, ENDPOINT_ASKS),
                            methods.requests, METHODS_HELD_MAX) == HYTHE_OK);
    start_services(board);
    work.ping = hythe_link_endpoint(&core_link, ENDPOINT_PING);
    work.pong = hythe_link_endpoint(&core_link, ENDPOINT_PONG);
    work.count = hythe_link_endpoint(&core_link, ENDPOINT_COUNT);
    work.client = &methods.client;
    work.segments = &segments;
    must(tasks_start(&core_link, &freertos, &work, &methods,
                     hythe_link_endpoint(&core_link, ENDPOINT_CONTROL)) == HYTHE_OK);
    board_write(ready, sizeof ready - 1);
    board_open_doorbell();
}
