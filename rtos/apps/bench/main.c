/*
 * The core's side of `hythe bench core`: one task, which does what Linux orders over `control`. See
 * README.md.
 */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "copy.h"
#include "echo.h"
#include "hythe_atomic.h"
#include "hythe_freertos.h"
#include "hythe_rt.h"
#include "link_start.h"
#include "order.h"

enum {
    ENDPOINT_CONTROL = 0,
    ENDPOINT_PING = 1,
    ENDPOINT_PONG = 2,
    ENDPOINTS = 3
};

/* One slot of the largest class of both boards, without its headroom. */
#define BYTES_MAX (1u << 20)
#define WAIT_MS 1000u

#define STACK_WORDS (4u * 1024u / sizeof(StackType_t))
/* It spins while Linux polls, so it must be what everything else may interrupt. */
#define PRIORITY (1 | portPRIVILEGE_BIT)

static const struct hythe_endpoint_config endpoints[ENDPOINTS] = {
    [ENDPOINT_CONTROL] = {.name = "control", .direction = HYTHE_TO_CORE, .max_bytes = BYTES_MAX},
    [ENDPOINT_PING] = {.name = "ping", .direction = HYTHE_TO_CORE, .max_bytes = BYTES_MAX},
    [ENDPOINT_PONG] = {.name = "pong", .direction = HYTHE_FROM_CORE, .max_bytes = BYTES_MAX},
};

static struct hythe_freertos freertos;
static struct hythe_port port;
static struct hythe_link core_link;

static StackType_t stack[STACK_WORDS];
static StaticTask_t task;

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

/* 0: it is no order. */
static int read_order(const struct hythe_buffer *buffer, struct order *order)
{
    const volatile uint32_t *words = (const volatile uint32_t *)(const volatile void *)buffer->data;

    if (buffer->length < ORDER_WORDS * sizeof(uint32_t) ||
        (uintptr_t)buffer->data % sizeof(uint64_t) != 0) {
        return 0;
    }
    order->system = hythe_load_relaxed(&words[ORDER_AT_SYSTEM]);
    order->wait = hythe_load_relaxed(&words[ORDER_AT_WAIT]);
    order->payload = hythe_load_relaxed(&words[ORDER_AT_PAYLOAD]);
    return 1;
}

static void obey(struct hythe_buffer *buffer)
{
    struct order order;
    int is_order = read_order(buffer, &order);

    if (is_order && order.system == ORDER_COPY) {
        copy_run(&order, buffer, &port);
    }
    (void)hythe_release(buffer);
    if (is_order && order.system == ORDER_HYTHE) {
        echo_run(&order, hythe_link_endpoint(&core_link, ENDPOINT_PING),
                 hythe_link_endpoint(&core_link, ENDPOINT_PONG));
    }
}

static void run(void *argument)
{
    struct hythe_endpoint *control = hythe_link_endpoint(&core_link, ENDPOINT_CONTROL);
    struct hythe_buffer buffer;

    (void)argument;
    for (;;) {
        if (hythe_receive(control, &buffer, WAIT_MS) == HYTHE_OK) {
            obey(&buffer);
        }
    }
}

void app_start(const struct board *board)
{
    const struct hythe_link_config config = {
        .link = board->link,
        .link_bytes = board->link_bytes,
        .region = board->region,
        .region_bytes = board->region_bytes,
        .name = "bench",
        .endpoints = endpoints,
        .endpoint_count = ENDPOINTS,
        .sleep_looks = board->sleep_looks,
        .port = &port,
    };

    hythe_freertos_start(&freertos, board_ring, &port);
    port.clean = board->clean;
    port.invalidate = board->invalidate;
    /* One task has the link. */
    port.lock = port.unlock = NULL;
    start_link(&core_link, &config);
    must(xTaskCreateStatic(run, "bench", STACK_WORDS, NULL, PRIORITY, stack, &task) != NULL);
    board_open_doorbell();
}
