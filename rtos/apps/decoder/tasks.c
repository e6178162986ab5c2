/*
 * The tasks of this program, registered so that Linux sees what they do. They share what they work
 * on, so none of them can be stopped or killed alone.
 */
#include "tasks.h"

#include "FreeRTOS.h"
#include "task.h"

#include "hythe_freertos_task.h"

/*
 * minimp3 puts 16 KiB of scratch on the stack; its own frames and an interrupt's take less than 4
 * KiB. The hosted board gives each task a thread's stack instead.
 */
#define DECODE_STACK_WORDS (24u * 1024u / sizeof(StackType_t))
#define STACK_WORDS (4u * 1024u / sizeof(StackType_t))

/* Echoing spins while Linux polls, so it must be what everything else may interrupt. */
#define ECHO_PRIORITY 1
#define DECODE_PRIORITY 2
#define SERVICE_PRIORITY (configMAX_PRIORITIES - 1)

/* Bounds each wait of the service and of decoding; their loops go on. */
#define WAIT_MS 1000u

enum {
    TASK_SERVICE = 0,
    TASK_DECODE = 1,
    TASK_ECHO = 2,
    TASK_ANSWER = 3,
    TASK_REPLY = 4,
    TASKS = 5
};

/* A frame and its samples, a ping, a request, one of control, and one to spare for each task. */
#define HELD_MAX 10

static struct hythe_port_task port;
static struct hythe_tasks tasks;
static struct hythe_task task_memory[TASKS];
static struct hythe_task_config configs[TASKS];
static struct hythe_held held[HELD_MAX];
static struct hythe_client *clients[1];
static struct hythe_service service;
static StackType_t decode_stack[DECODE_STACK_WORDS];
static StackType_t stacks[TASKS][STACK_WORDS];
static StaticTask_t kernel_memory[TASKS];

static void run_service(struct hythe_task *task)
{
    for (;;) {
        (void)hythe_service_run(task->config->context, WAIT_MS);
    }
}

static void run_decode(struct hythe_task *task)
{
    for (;;) {
        (void)decode_next(task->config->context, WAIT_MS);
    }
}

static void run_echo(struct hythe_task *task)
{
    echo_run(task->config->context);
}

static void run_answer(struct hythe_task *task)
{
    answer_run(task->config->context);
}

static void run_reply(struct hythe_task *task)
{
    reply_run(task->config->context);
}

static void add(uint32_t number, const char *name, void (*run)(struct hythe_task *), void *context,
                uint32_t priority)
{
    const struct hythe_task_config config = {
        .name = name,
        .run = run,
        .context = context,
        .stack = number == TASK_DECODE ? decode_stack : stacks[number],
        .stack_bytes = number == TASK_DECODE ? sizeof decode_stack : sizeof stacks[number],
        .priority = priority,
        .flags = HYTHE_TASK_AT_START | HYTHE_TASK_PERMANENT,
        .memory = &kernel_memory[number],
    };

    configs[number] = config;
}

int tasks_start(struct hythe_link *link, struct hythe_freertos *freertos, struct decode *decode,
                struct echo *echo, struct hythe_endpoint *control, const struct board *board)
{
    const struct hythe_tasks_config config = {
        .link = link,
        .port = &port,
        .configs = configs,
        .tasks = task_memory,
        .count = TASKS,
        .held = held,
        .held_count = HELD_MAX,
        .clients = clients,
        .client_count = 1,
    };
    const struct hythe_service_config served = {
        .tasks = &tasks,
        .endpoint = control,
        .segments = board->segments,
        .segments_bytes = board->segments_bytes,
    };
    int result;

    clients[0] = &echo->query.client;
    hythe_freertos_task_start(freertos, &port);
    add(TASK_SERVICE, "service", run_service, &service, SERVICE_PRIORITY);
    add(TASK_DECODE, "decode", run_decode, decode, DECODE_PRIORITY);
    add(TASK_ECHO, "echo", run_echo, echo, ECHO_PRIORITY);
    add(TASK_ANSWER, "answer", run_answer, echo, DECODE_PRIORITY);
    add(TASK_REPLY, "reply", run_reply, echo, DECODE_PRIORITY);
    result = hythe_service_start(&service, &served);
    return result == HYTHE_OK ? hythe_tasks_start(&tasks, &config) : result;
}
