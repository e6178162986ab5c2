/*
 * The tasks of this program. `audio` and `video` share nothing, and may be stopped, killed and
 * started again while the other goes on.
 */
#include "tasks.h"

#include "FreeRTOS.h"
#include "task.h"

#include "hythe_freertos_task.h"

/* minimp3 puts 16 KiB of scratch on the stack; h264bsd's deepest frames take less. */
#define DECODER_STACK_WORDS (24u * 1024u / sizeof(StackType_t))
#define SERVICE_STACK_WORDS (4u * 1024u / sizeof(StackType_t))

/* A frame of sound takes less time than a picture, and lasts about as long. */
#define VIDEO_PRIORITY 1
#define AUDIO_PRIORITY 2
#define SERVICE_PRIORITY (configMAX_PRIORITIES - 1)

/* Bounds each wait of a task, so that it hears soon that it is to stop. */
#define WAIT_MS 20u
/* Of the service task: what a task that returned had comes back so soon. */
#define SERVICE_MS 50u

enum {
    TASK_SERVICE = 0,
    TASK_AUDIO = 1,
    TASK_VIDEO = 2,
    TASKS = 3
};

/* For each decoder what came and what leaves, one of control, and one to spare for each task. */
#define HELD_MAX 8

static struct hythe_port_task port;
static struct hythe_tasks tasks;
static struct hythe_task task_memory[TASKS];
static struct hythe_held held[HELD_MAX];
static struct hythe_service service;
static StackType_t service_stack[SERVICE_STACK_WORDS];
static StackType_t decoder_stacks[2][DECODER_STACK_WORDS];
static StaticTask_t kernel_memory[TASKS];
static struct hythe_task_config configs[TASKS];

static void run_service(struct hythe_task *task)
{
    for (;;) {
        (void)hythe_service_run(task->config->context, SERVICE_MS);
    }
}

static void run_audio(struct hythe_task *task)
{
    struct audio *audio = task->config->context;

    while (!hythe_task_should_stop(task)) {
        (void)decode_next(&audio->decode, WAIT_MS);
        copied_frames(&audio->copied, task);
    }
}

static void run_video(struct hythe_task *task)
{
    struct video *video = task->config->context;

    h264_start(&video->h264);
    while (!hythe_task_should_stop(task)) {
        (void)pictures_next(&video->pictures, WAIT_MS);
        copied_units(&video->copied, task, &video->h264);
    }
}

static void add_decoder(uint32_t number, const char *name, void (*run)(struct hythe_task *),
                        void *context, uint32_t priority)
{
    const struct hythe_task_config config = {
        .name = name,
        .run = run,
        .context = context,
        .stack = decoder_stacks[number - TASK_AUDIO],
        .stack_bytes = sizeof decoder_stacks[0],
        .priority = priority,
        .flags = HYTHE_TASK_AT_START,
        .memory = &kernel_memory[number],
    };

    configs[number] = config;
}

int tasks_start(struct hythe_link *link, struct hythe_freertos *freertos, struct audio *audio,
                struct video *video, struct hythe_endpoint *control, const struct board *board)
{
    const struct hythe_task_config service_task = {
        .name = "service",
        .run = run_service,
        .context = &service,
        .stack = service_stack,
        .stack_bytes = sizeof service_stack,
        .priority = SERVICE_PRIORITY,
        .flags = HYTHE_TASK_AT_START | HYTHE_TASK_PERMANENT,
        .memory = &kernel_memory[TASK_SERVICE],
    };
    const struct hythe_tasks_config config = {
        .link = link,
        .port = &port,
        .configs = configs,
        .tasks = task_memory,
        .count = TASKS,
        .held = held,
        .held_count = HELD_MAX,
    };
    const struct hythe_service_config served = {
        .tasks = &tasks,
        .endpoint = control,
        .segments = board->segments,
        .segments_bytes = board->segments_bytes,
    };
    int result;

    hythe_freertos_task_start(freertos, &port);
    configs[TASK_SERVICE] = service_task;
    add_decoder(TASK_AUDIO, "audio", run_audio, audio, AUDIO_PRIORITY);
    add_decoder(TASK_VIDEO, "video", run_video, video, VIDEO_PRIORITY);
    result = hythe_service_start(&service, &served);
    return result == HYTHE_OK ? hythe_tasks_start(&tasks, &config) : result;
}
