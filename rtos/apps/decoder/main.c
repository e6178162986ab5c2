/* The decoder image: one link, and its tasks (tasks.c). See README.md for the endpoints. */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "decode.h"
#include "echo.h"
#include "hythe_freertos.h"
#include "hythe_rt.h"
#include "link_start.h"
#include "log.h"
#include "tasks.h"

enum {
    ENDPOINT_MP3 = 0,
    ENDPOINT_PCM = 1,
    ENDPOINT_PING = 2,
    ENDPOINT_PONG = 3,
    ENDPOINT_KNOCK = 4,
    ENDPOINT_ANSWER = 5,
    ENDPOINT_ASK = 6,
    ENDPOINT_QUERY = 7,
    ENDPOINT_CONTROL = 8,
    ENDPOINTS = 9
};

/* One slot of the largest class of every board, without its headroom. */
#define ECHO_BYTES_MAX (1u << 20)
/* The largest request and reply: each request takes a slot of this size. */
#define ASK_BYTES_MAX (64u << 10)

/* Some milliseconds of looking on any board: longer than a Linux that polls takes to answer. */
#define ECHO_SPIN_CHECKS 2000

static const struct hythe_endpoint_config endpoints[ENDPOINTS] = {
    [ENDPOINT_MP3] = {"mp3", HYTHE_TO_CORE, FRAMES_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_PCM] = {"pcm", HYTHE_FROM_CORE, FRAMES_PCM_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_PING] = {"ping", HYTHE_TO_CORE, ECHO_BYTES_MAX, 0, ECHO_SPIN_CHECKS, 0},
    [ENDPOINT_PONG] = {"pong", HYTHE_FROM_CORE, ECHO_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_KNOCK] = {"knock", HYTHE_TO_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
    [ENDPOINT_ANSWER] = {"answer", HYTHE_FROM_CORE, 0, 0, 0, HYTHE_KIND_EVENTS},
    [ENDPOINT_ASK] = {"ask", HYTHE_TO_CORE, ASK_BYTES_MAX, 0, 0, HYTHE_KIND_REQUESTS},
    [ENDPOINT_QUERY] = {"query", HYTHE_FROM_CORE, ASK_BYTES_MAX, 0, 0, HYTHE_KIND_REQUESTS},
    [ENDPOINT_CONTROL] = {"core/control", HYTHE_TO_CORE, HYTHE_CONTROL_BYTES, 0, 0,
                          HYTHE_KIND_REQUESTS},
};

static struct hythe_freertos freertos;
static struct hythe_port port;
static struct hythe_link core_link;
static struct decode decode;
static struct echo echo;

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

void app_start(const struct board *board)
{
    const struct hythe_link_config config = {
        .link = board->link,
        .link_bytes = board->link_bytes,
        .region = board->region,
        .region_bytes = board->region_bytes,
        .name = "decoder",
        .endpoints = endpoints,
        .endpoint_count = ENDPOINTS,
        .sleep_looks = board->sleep_looks,
        .port = &port,
    };

    hythe_freertos_start(&freertos, board_ring, &port);
    port.clean = board->clean;
    port.invalidate = board->invalidate;
    start_link(&core_link, &config);
    decode.mp3 = hythe_link_endpoint(&core_link, ENDPOINT_MP3);
    decode.pcm = hythe_link_endpoint(&core_link, ENDPOINT_PCM);
    echo.ping = hythe_link_endpoint(&core_link, ENDPOINT_PING);
    echo.pong = hythe_link_endpoint(&core_link, ENDPOINT_PONG);
    echo.knock = hythe_link_endpoint(&core_link, ENDPOINT_KNOCK);
    echo.answer = hythe_link_endpoint(&core_link, ENDPOINT_ANSWER);
    echo.ask = hythe_link_endpoint(&core_link, ENDPOINT_ASK);
    must(query_start(&echo.query, hythe_link_endpoint(&core_link, ENDPOINT_QUERY), echo.pong,
                     &port) == HYTHE_OK);
    must(tasks_start(&core_link, &freertos, &decode, &echo,
                     hythe_link_endpoint(&core_link, ENDPOINT_CONTROL), board) == HYTHE_OK);
    log_number("link session", core_link.session);
    board_open_doorbell();
}
