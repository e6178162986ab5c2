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
    void (*act)(const struct hythe_gate *gate, uintptr_t first, uintptr_t second);
};

static uint8_t stacks[GUESTS][STACK_BYTES] __attribute__((aligned(STACK_BYTES)));
static struct hythe_freertos_restricted memory[GUESTS];
static struct hythe_endpoint *endpoints[ENDPOINTS];
static struct hythe_segment_grant segments_of_guest[1];
static struct hythe_segment_grant segments_of_reader[3];

/* Of the kernel: a variable and a function. */
extern void *volatile pxCurrentTCB;

/* ---- What they do ---- */

/* A word on `count`: how something went. */
static void tell(const struct hythe_gate *gate, uint32_t word)
{
    struct hythe_gate_buffer buffer;

    while (hythe_gate_lease(gate, COUNT, &buffer, WAIT_MS) != HYTHE_OK) {
        if (hythe_gate_should_stop(gate)) {
            return;
        }
    }
    memcpy(buffer.data, &word, sizeof word);
    (void)hythe_gate_publish(gate, &buffer, sizeof word, WAIT_MS);
    if (buffer.number != 0) {
        (void)hythe_gate_release(gate, &buffer);
    }
}

static void write_byte(const struct hythe_gate *gate, uintptr_t at, uintptr_t value)
{
    (void)gate;
    *(volatile uint8_t *)at = (uint8_t)value;
}

static void read_byte(const struct hythe_gate *gate, uintptr_t at, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    (void)*(volatile uint8_t *)at;
}

static void run_at(const struct hythe_gate *gate, uintptr_t at, uintptr_t ignored)
{
    (void)gate;
    (void)ignored;
    ((void (*)(void))(at | 1))();
}

static const struct verb verbs[] = {
    {"write", write_byte},
    {"read", read_byte},
    {"run", run_at},
};

/* ---- How they are told ---- */

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
            verbs[i].act(gate, first, second);
            tell(gate, 0);
        }
    }
}

/* ---- How they are configured ---- */

static const struct hythe_restriction restrictions[GUESTS] = {
    {guest, 1, segments_of_guest, 1, endpoints, ENDPOINTS},
    {guest, 0, segments_of_reader, 3, endpoints, ENDPOINTS},
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
