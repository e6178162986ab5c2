/* The player image: one link, and its tasks (tasks.c). See README.md for the endpoints. */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "hythe_freertos.h"
#include "hythe_rt.h"
#include "link_start.h"
#include "tasks.h"
#include "transfer.h"

enum {
    ENDPOINT_MP3 = 0,
    ENDPOINT_PCM = 1,
    ENDPOINT_H264 = 2,
    ENDPOINT_PICTURE = 3,
    ENDPOINT_CONTROL = 4,
    ENDPOINT_MP3_COPY = 5,
    ENDPOINT_H264_COPY = 6,
    ENDPOINTS = 7
};

#define MICROSECONDS 1000000u

static const struct hythe_endpoint_config endpoints[ENDPOINTS] = {
    [ENDPOINT_MP3] = {"mp3", HYTHE_TO_CORE, FRAMES_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_PCM] = {"pcm", HYTHE_FROM_CORE, FRAMES_PCM_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_H264] = {"h264", HYTHE_TO_CORE, PICTURES_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_PICTURE] = {"picture", HYTHE_FROM_CORE, PICTURES_BYTES_MAX, 0, 0, 0},
    [ENDPOINT_CONTROL] = {"core/control", HYTHE_TO_CORE, HYTHE_CONTROL_BYTES, 0, 0,
                          HYTHE_KIND_REQUESTS},
    [ENDPOINT_MP3_COPY] = {"mp3/copy", HYTHE_TO_CORE, TRANSFER_BYTES, 0, 0, 0},
    [ENDPOINT_H264_COPY] = {"h264/copy", HYTHE_TO_CORE, TRANSFER_BYTES, 0, 0, 0},
};

static struct hythe_freertos freertos;
static struct hythe_port port;
static struct hythe_link core_link;
static struct audio audio;
static struct video video;

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

/* The kernel's own counter, which is read with its interrupts masked. */
static uint64_t now_us(void)
{
    uint64_t ticks;

    taskENTER_CRITICAL();
    ticks = board_clock();
    taskEXIT_CRITICAL();
    /* Every board counts a whole number of ticks in a microsecond. */
    return ticks / (board_clock_hz / MICROSECONDS);
}

void app_start(const struct board *board)
{
    const struct hythe_link_config config = {
        .link = board->link,
        .link_bytes = board->link_bytes,
        .region = board->region,
        .region_bytes = board->region_bytes,
        .name = "player",
        .endpoints = endpoints,
        .endpoint_count = ENDPOINTS,
        .sleep_looks = board->sleep_looks,
        .port = &port,
    };

    hythe_freertos_start(&freertos, board_ring, &port);
    port.clean = board->clean;
    port.invalidate = board->invalidate;
    start_link(&core_link, &config);
    audio.decode.mp3 = hythe_link_endpoint(&core_link, ENDPOINT_MP3);
    audio.decode.pcm = hythe_link_endpoint(&core_link, ENDPOINT_PCM);
    audio.copied.memory = hythe_link_endpoint(&core_link, ENDPOINT_MP3_COPY);
    audio.copied.port = &port;
    video.pictures.units = hythe_link_endpoint(&core_link, ENDPOINT_H264);
    video.pictures.pictures = hythe_link_endpoint(&core_link, ENDPOINT_PICTURE);
    video.pictures.h264 = &video.h264;
    video.h264.now_us = now_us;
    video.copied.memory = hythe_link_endpoint(&core_link, ENDPOINT_H264_COPY);
    video.copied.port = &port;
    must(tasks_start(&core_link, &freertos, &audio, &video,
                     hythe_link_endpoint(&core_link, ENDPOINT_CONTROL), board) == HYTHE_OK);
    board_open_doorbell();
}
