/*
 * How the restricted tasks of this program are configured, and a method by which a test learns
 * where something is (README.md).
 */
#include "guest.h"

#include <string.h>

#define WHERE 30
#define TOO_SHORT 1
#define NO_SUCH 2

#if portUSING_MPU_WRAPPERS

#define PRIORITY 2
#define STACK_BYTES 2048u

static uint8_t stacks[GUESTS][STACK_BYTES] __attribute__((aligned(STACK_BYTES)));
static struct hythe_freertos_restricted memory[GUESTS];
static struct hythe_endpoint *endpoints[GUEST_ENDPOINTS];
static struct hythe_segment_grant segments_of_guest[1];
static struct hythe_segment_grant segments_of_reader[3];

/* Of the kernel: a variable. */
extern void *volatile pxCurrentTCB;

static const char *const names_of_objects[] = {"guest"};

static const struct hythe_restriction restrictions[GUESTS] = {
    {guest_run, 1, segments_of_guest, 1, endpoints, GUEST_ENDPOINTS, names_of_objects, 1,
     names_of_objects, 1},
    {guest_run, 0, segments_of_reader, 3, endpoints, GUEST_ENDPOINTS, NULL, 0, NULL, 0},
};

void guests_configure(struct hythe_task_config *configs, const struct work *work,
                      const struct segments *segments)
{
    static const char *const names[GUESTS] = {"guest", "reader"};
    uint32_t i;

    endpoints[GUEST_PING] = work->ping;
    endpoints[GUEST_PONG] = work->pong;
    endpoints[GUEST_COUNT] = work->count;
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
