/*
 * Restricted tasks that do what their argument says, allowed or not: a verb, and up to two numbers
 * of base 16. README.md lists them. Their own code uses nothing but their stack.
 */
#include "guest.h"

#include <string.h>

#include "board.h"

#define WHERE 30
#define TOO_SHORT 1
#define NO_SUCH 2

#if portUSING_MPU_WRAPPERS

#define WAIT_MS 20u
/* Of what is there at once: longer than an agent takes on a loaded machine. */
#define CALL_MS 60000u
#define PRIORITY 2
#define STACK_BYTES 2048u

/* Places in `endpoints`. */
enum {
    PING = 0,
    PONG = 1,
    COUNT = 2,
    ENDPOINTS = 3
};

struct verb {
    const char *name;
    /* Returns what is told, if it returns. */
    uint32_t (*act)(const struct hythe_gate *gate, uintptr_t first, uintptr_t second);
};

static uint8_t stacks[GUESTS][STACK_BYTES] __attribute__((aligned(STACK_BYTES)));
static struct hythe_freertos_restricted memory[GUESTS];
static struct hythe_endpoint *endpoints[ENDPOINTS];
static struct hythe_segment_grant segments_of_guest[1];
static struct hythe_segment_grant segments_of_reader[3];

/* Of the kernel: a variable and a function. */
extern void *volatile pxCurrentTCB;

/* ---- What they do ---- */

static uint32_t write_byte(const struct hythe_gate *gate, uintptr_t at, uintptr_t value)
{
    (void)gate;
    *(volatile uint8_t *)at = (uint8_t)value;
    return 0;
}

static uint32_t read_byte(const struct hythe_gate *gate, uintptr_t at, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    return *(volatile uint8_t *)at;
}

static uint32_t run_at(const struct hythe_gate *gate, uintptr_t at, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    ((void (*)(void))(at | 1))();
    return 0;
}

/* Deeper with each call. */
static uint32_t descend(volatile uint32_t depth)
{
    volatile uint32_t words[16] = {depth};

    return depth == UINT32_MAX ? words[0] : descend(depth + 1) + words[0];
}

static uint32_t overflow(const struct hythe_gate *gate, uintptr_t ignored, uintptr_t also_ignored)
{
    (void)gate;
    (void)ignored;
    (void)also_ignored;
    return descend(0);
}

/* Until an interrupt saves registers there. */
static uint32_t stand_at(const struct hythe_gate *gate, uintptr_t stack, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    __asm volatile("mov sp, %0\n1: b 1b" ::"r"(stack));
    return 0;
}

/* The same with registers of the FPU, which need more. */
static uint32_t float_at(const struct hythe_gate *gate, uintptr_t stack, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    __asm volatile("vmov.f32 s0, #1.0\n\tmov sp, %0\n1: b 1b" ::"r"(stack) : "s0");
    return 0;
}

/* A system call, which saves registers at once. */
static uint32_t call_from(const struct hythe_gate *gate, uintptr_t stack, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    __asm volatile("mov sp, %0\n\tsvc %1" ::"r"(stack), "i"(portSVC_YIELD));
    return 0;
}

static uint32_t instruction(const struct hythe_gate *gate, uintptr_t which, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    if (which == 0) {
        __asm volatile("udf #0");
    } else if (which == 1) {
        __asm volatile("bkpt #0");
    } else {
        __asm volatile("svc %0" ::"i"(portSVC_START_SCHEDULER));
    }
    return 0;
}

/* Takes two buffers first. */
static uint32_t write_with_buffers(const struct hythe_gate *gate, uintptr_t at, uintptr_t value)
{
    struct hythe_gate_buffer buffers[2];
    size_t i;

    for (i = 0; i < 2; i++) {
        while (hythe_gate_lease(gate, COUNT, &buffers[i], WAIT_MS) != HYTHE_OK) {
        }
    }
    return write_byte(gate, at, value);
}

/* What a restricted task is for: raises each byte of what comes, where it stands. */
static uint32_t echo(const struct hythe_gate *gate, uintptr_t ignored, uintptr_t also_ignored)
{
    struct hythe_gate_buffer buffer;
    uint32_t i;

    (void)ignored;
    (void)also_ignored;
    while (!hythe_gate_should_stop(gate)) {
        if (hythe_gate_receive(gate, PING, &buffer, WAIT_MS) != HYTHE_OK) {
            continue;
        }
        for (i = 0; i < buffer.length; i++) {
            buffer.data[i]++;
        }
        if (hythe_gate_forward(gate, &buffer, PONG, WAIT_MS) < 0) {
            (void)hythe_gate_release(gate, &buffer);
        }
    }
    return 0;
}

/* Gives the gate an address where a call may stand or not. */
static uint32_t call_at(const struct hythe_gate *gate, uintptr_t at, uintptr_t ignored)
{
    (void)ignored;
    (void)xQueueSend((QueueHandle_t)gate->queue, &at, portMAX_DELAY);
    (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
    return 0;
}

/* Has the gate write the argument there, if the task may. */
static uint32_t begin_at(const struct hythe_gate *gate, uintptr_t at, uintptr_t bytes)
{
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_BEGIN,
        .at = (uint8_t *)at,
        .bytes = bytes,
    };

    return (uint32_t)hythe_gate_ask(gate, &call);
}

/* Of the kernel's objects it reaches its queue and itself; tells how many others. */
static uint32_t objects(const struct hythe_gate *gate, uintptr_t ignored, uintptr_t also_ignored)
{
    uint32_t reached = 0;
    uint32_t word = 0;
    uintptr_t i;

    (void)ignored;
    (void)also_ignored;
    for (i = 0; i <= configPROTECTED_KERNEL_OBJECT_POOL_SIZE + 1; i++) {
        if (i != gate->queue) {
            reached += xQueueSend((QueueHandle_t)i, &word, 0) == pdPASS;
            reached += xTaskNotifyGive((TaskHandle_t)i) == pdPASS;
            if (i != 0) {
                vTaskSuspend((TaskHandle_t)i);
            }
        }
    }
    /* Itself it reached: that was no answer of the gate. */
    (void)ulTaskNotifyTake(pdTRUE, 0);
    return reached;
}

/* Takes a count, and gives it back. */
static uint32_t semaphore(const struct hythe_gate *gate, uintptr_t place, uintptr_t ignored)
{
    int result = hythe_gate_sem_wait(gate, place, CALL_MS);

    (void)ignored;
    return (uint32_t)(result < 0 ? result : hythe_gate_sem_post(gate, place));
}

/* Takes one, and keeps it. */
static uint32_t take_at(const struct hythe_gate *gate, uintptr_t at, uintptr_t ignored)
{
    (void)hythe_gate_sem_wait(gate, 0, CALL_MS);
    return write_byte(gate, at, ignored);
}

static uint32_t send_from(const struct hythe_gate *gate, uintptr_t at, uintptr_t bytes)
{
    return (uint32_t)hythe_gate_mq_send(gate, 0, (const void *)at, bytes, 3, CALL_MS);
}

static uint32_t receive_to(const struct hythe_gate *gate, uintptr_t at, uintptr_t bytes)
{
    return (uint32_t)hythe_gate_mq_receive(gate, 0, (void *)at, bytes, NULL, CALL_MS);
}

static const struct verb verbs[] = {
    {"write", write_byte},        {"read", read_byte},      {"run", run_at},
    {"overflow", overflow},       {"stack", stand_at},      {"float", float_at},
    {"supervisor", call_from},    {"echo", echo},           {"instruction", instruction},
    {"hold", write_with_buffers}, {"call", call_at},        {"begin", begin_at},
    {"objects", objects},         {"semaphore", semaphore}, {"take", take_at},
    {"send", send_from},          {"get", receive_to},
};

/* ---- How they are told, and tell ---- */

/* A word on `count`. */
static void tell(const struct hythe_gate *gate, uint32_t word)
{
    struct hythe_gate_buffer buffer;
    int result;

    do {
        result = hythe_gate_lease(gate, COUNT, &buffer, WAIT_MS);
        /* One without slots has nothing to tell by. */
        if (result == HYTHE_E_ARGUMENT || hythe_gate_should_stop(gate)) {
            return;
        }
    } while (result != HYTHE_OK);
    memcpy(buffer.data, &word, sizeof word);
    (void)hythe_gate_publish(gate, &buffer, sizeof word, WAIT_MS);
    if (buffer.number != 0) {
        (void)hythe_gate_release(gate, &buffer);
    }
}

static const char *number(const char *text, uintptr_t *value)
{
    *value = 0;
    while (*text == ' ') {
        text++;
    }
    for (; *text != '\0' && *text != ' '; text++) {
        uintptr_t digit = (uintptr_t)*text - (*text >= 'a' ? 'a' - 10 : '0');
        *value = *value << 4 | digit;
    }
    return text;
}

static void guest(struct hythe_gate *gate)
{
    const char *text = gate->argument;
    uintptr_t first;
    uintptr_t second;
    size_t length = 0;
    size_t i;

    while (text[length] != '\0' && text[length] != ' ') {
        length++;
    }
    (void)number(number(text + length, &first), &second);
    for (i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strlen(verbs[i].name) == length && memcmp(verbs[i].name, text, length) == 0) {
            tell(gate, verbs[i].act(gate, first, second));
        }
    }
}

/* ---- How they are configured ---- */

static const char *const names_of_objects[] = {"guest"};

static const struct hythe_restriction restrictions[GUESTS] = {
    {guest, 1, segments_of_guest, 1, endpoints, ENDPOINTS, names_of_objects, 1, names_of_objects,
     1},
    {guest, 0, segments_of_reader, 3, endpoints, ENDPOINTS, NULL, 0, NULL, 0},
};

void guests_configure(struct hythe_task_config *configs, const struct work *work,
                      const struct segments *segments)
{
    static const char *const names[GUESTS] = {"guest", "reader"};
    uint32_t i;

    endpoints[PING] = work->ping;
    endpoints[PONG] = work->pong;
    endpoints[COUNT] = work->count;
    segments_of_guest[0] = (struct hythe_segment_grant){&segments->attached[0], 0};
    for (i = 0; i < 3; i++) {
        segments_of_reader[i] =
            (struct hythe_segment_grant){&segments->attached[1 + i], i == 0 ? HYTHE_SHM_RDONLY : 0};
    }
    for (i = 0; i < GUESTS; i++) {
        configs[i] = (struct hythe_task_config){
            .name = names[i],
            .run = hythe_gate_run,
            .stack = stacks[i],
            .stack_bytes = STACK_BYTES,
            .priority = PRIORITY,
            .memory = &memory[i],
            .restriction = &restrictions[i],
        };
    }
}

#else

void guests_configure(struct hythe_task_config *configs, const struct work *work,
                      const struct segments *segments)
{
    (void)configs;
    (void)work;
    (void)segments;
}

#endif

static int where(void *context, const struct hythe_rpc_request *request,
                 struct hythe_rpc_reply *reply)
{
    const struct hythe_link *link = context;
    uint32_t number;
    uint32_t addresses[] = {
        (uint32_t)(uintptr_t)link->region,
        (uint32_t)(uintptr_t)link->base,
        (uint32_t)(uintptr_t)link,
#if portUSING_MPU_WRAPPERS
        (uint32_t)(uintptr_t)stacks[0],
        (uint32_t)(uintptr_t)memory[0].gate_stack,
        (uint32_t)(uintptr_t)&pxCurrentTCB,
        (uint32_t)(uintptr_t)vTaskSwitchContext & ~1u,
#endif
    };

    if (request->argument_bytes < sizeof number || reply->capacity < sizeof number) {
        return TOO_SHORT;
    }
    memcpy(&number, request->argument, sizeof number);
    if (number >= sizeof addresses / sizeof addresses[0]) {
        return NO_SUCH;
    }
    memcpy(reply->result, &addresses[number], sizeof number);
    reply->bytes = sizeof number;
    return 0;
}

void guests_methods(const struct hythe_link *link, struct hythe_rpc_method *table)
{
    table[0] = (struct hythe_rpc_method){WHERE, where, (void *)(uintptr_t)link};
}
