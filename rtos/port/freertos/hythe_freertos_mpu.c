/*
 * Restricted tasks on FreeRTOS (hythe_freertos_mpu.h): a task without privilege, and its gate, a
 * task of the program with the same priority. Only the gate is known to the library; hooks that
 * make, end and describe a registered task look after both. Called by the service task, the gate,
 * and the handler of faults. Allocates nothing.
 */
#include "hythe_freertos_mpu.h"

#if portUSING_MPU_WRAPPERS

#include <string.h>

/* Registers of Armv7-M (Arm DDI 0403, B3.2) and a bit of it. */
#define FLOATING_POINT_CONTEXT (*(volatile uint32_t *)0xE000EF34u)
#define SAVES_LATER (1u << 30)

#define REGIONS portNUM_CONFIGURABLE_REGIONS
#define REGION_LEAST 32u
#define PAGE_BYTES 4096u
#define MEMORY_TYPE                                                                                \
    ((configTEX_S_C_B_SRAM & portMPU_RASR_TEX_S_C_B_MASK) << portMPU_RASR_TEX_S_C_B_LOCATION)

/* All that were ever started; the handler of faults has nothing else to find them by. */
static struct hythe_freertos_restricted *all;
static struct hythe_port_task unrestricted;

static struct hythe_freertos_restricted *of(const void *identity)
{
    struct hythe_freertos_restricted *restricted = all;

    while (restricted != NULL && restricted->gate != identity) {
        restricted = restricted->next;
    }
    return restricted;
}

/* The kernel's own. */
extern void *volatile pxCurrentTCB;

struct hythe_freertos_restricted *hythe_freertos_restricted_now(void)
{
    struct hythe_freertos_restricted *restricted = all;

    while (restricted != NULL && (const void *)restricted != pxCurrentTCB) {
        restricted = restricted->next;
    }
    return restricted;
}

void hythe_freertos_park(void)
{
    for (;;) {
        vTaskSuspend(NULL);
    }
}

/* ---- What it was granted ---- */

struct grants {
    struct hythe_gate_server *server;
    MemoryRegion_t regions[REGIONS];
    uint32_t region_count;
};

/* 0: too many blocks. */
static int grant(struct grants *grants, const void *at, size_t bytes, int is_writable)
{
    const struct hythe_gate_range range = {(uintptr_t)at, bytes, is_writable};
    uint32_t access = is_writable ? portMPU_REGION_READ_WRITE
                                  : portMPU_REGION_PRIVILEGED_READ_WRITE_UNPRIV_READ_ONLY;
    uintptr_t first = range.first;

    if (bytes == 0 || grants->server->range_count == HYTHE_GATE_RANGES) {
        return 0;
    }
    grants->server->ranges[grants->server->range_count++] = range;
    while (bytes != 0) {
        size_t block = (size_t)1 << 31;
        while (block > bytes || first % block != 0) {
            block /= 2;
        }
        if (block < REGION_LEAST || grants->region_count == REGIONS) {
            return 0;
        }
        grants->regions[grants->region_count++] = (MemoryRegion_t){
            .pvBaseAddress = (void *)first,
            .ulLengthInBytes = block,
            .ulParameters = access | portMPU_REGION_EXECUTE_NEVER | MEMORY_TYPE,
        };
        first += block;
        bytes -= block;
    }
    return 1;
}

/* A segment has its last page to itself. */
static int grant_segment(struct grants *grants, const struct hythe_segment_grant *granted)
{
    const struct hythe_shm *segment = granted->segment;
    size_t bytes = ((size_t)segment->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    int is_writable = ((segment->flags | granted->flags) & HYTHE_SHM_RDONLY) == 0;

    return segment->address != NULL && grant(grants, segment->address, bytes, is_writable);
}

static int grant_all(struct grants *grants, const struct hythe_task *task)
{
    const struct hythe_restriction *restriction = task->config->restriction;
    const struct hythe_link *link = task->tasks->config.link;
    uint32_t bytes = task->config->stack_bytes;
    uint32_t i;

    if ((bytes & (bytes - 1)) != 0 || (uintptr_t)task->config->stack % bytes != 0 ||
        !grant(grants, task->config->stack, bytes, 1)) {
        return 0;
    }
    /* That region is made by the kernel. */
    memset(grants->regions, 0, sizeof grants->regions);
    grants->region_count = 0;
    if (restriction->slots != 0 && !grant(grants, link->region, link->region_bytes, 1)) {
        return 0;
    }
    for (i = 0; i < restriction->segment_count; i++) {
        if (!grant_segment(grants, &restriction->segments[i])) {
            return 0;
        }
    }
    return 1;
}

/* ---- The two tasks ---- */

static void run_client(void *queue)
{
    struct hythe_gate gate = {.queue = (uintptr_t)queue};
    struct hythe_gate_call call = {
        .operation = HYTHE_GATE_BEGIN,
        .at = (uint8_t *)gate.argument,
        .bytes = sizeof gate.argument,
    };

    if (hythe_gate_ask(&gate, &call) == HYTHE_OK) {
        gate.argument_bytes = call.bytes;
        ((void (*)(struct hythe_gate *))call.value)(&gate);
    }
    call.operation = HYTHE_GATE_END;
    (void)hythe_gate_ask(&gate, &call);
    hythe_freertos_park();
}

static void run_gate(void *argument)
{
    struct hythe_task *task = argument;
    struct hythe_freertos_restricted *restricted = task->config->memory;

    /*
     * Registers of the FPU are saved at once: later it would be within a handler of the kernel that
     * they cannot be, on a stack which the task has chosen for that. The kernel sets this when it
     * starts, so it cannot be done before.
     */
    FLOATING_POINT_CONTEXT &= ~SAVES_LATER;
    vTaskResume(restricted->client);
    (void)xQueueReceive(restricted->queue, &restricted->first_call, portMAX_DELAY);
    hythe_task_main(task);
    hythe_freertos_park();
}

void hythe_gate_run(struct hythe_task *task)
{
    struct hythe_freertos_restricted *restricted = task->config->memory;
    uintptr_t call = restricted->first_call;

    for (;;) {
        hythe_gate_serve(&restricted->server, call);
        (void)xTaskNotifyGive(restricted->client);
        if (restricted->server.has_ended) {
            return;
        }
        /* Until the service task ends both, which it does without a word. */
        (void)xQueueReceive(restricted->queue, &call, portMAX_DELAY);
    }
}

/* ---- Hooks of the library ---- */

static void delete_all(struct hythe_freertos_restricted *restricted)
{
    if (restricted->gate != NULL) {
        vTaskDelete(restricted->gate);
    }
    if (restricted->client != NULL) {
        vTaskDelete(restricted->client);
    }
    if (restricted->queue != NULL) {
        vQueueDelete(restricted->queue);
    }
    restricted->gate = NULL;
    restricted->client = NULL;
    restricted->queue = NULL;
}

/* 0: not all of it could be made. */
static int make(struct hythe_freertos_restricted *restricted, struct hythe_task *task,
                const struct grants *grants)
{
    const struct hythe_task_config *config = task->config;
    TaskParameters_t parameters = {
        .pvTaskCode = run_client,
        .pcName = config->name,
        .usStackDepth = config->stack_bytes / sizeof(StackType_t),
        .uxPriority = config->priority,
        .puxStackBuffer = config->stack,
        .pxTaskBuffer = &restricted->client_memory,
    };

    restricted->queue = xQueueCreateStatic(1, sizeof(uintptr_t), restricted->queue_storage,
                                           &restricted->queue_memory);
    if (restricted->queue == NULL) {
        return 0;
    }
    parameters.pvParameters = restricted->queue;
    memcpy(parameters.xRegions, grants->regions, sizeof grants->regions);
    if (xTaskCreateRestrictedStatic(&parameters, &restricted->client) != pdPASS) {
        return 0;
    }
    /* Until its gate runs. The caller has the highest priority, so it has not run yet. */
    vTaskSuspend(restricted->client);
    vGrantAccessToQueue(restricted->client, restricted->queue);
    restricted->gate = xTaskCreateStatic(run_gate, config->name, HYTHE_GATE_STACK_WORDS, task,
                                         config->priority | portPRIVILEGE_BIT,
                                         restricted->gate_stack, &restricted->gate_memory);
    return restricted->gate != NULL;
}

static void remember(struct hythe_freertos_restricted *restricted)
{
    struct hythe_freertos_restricted *other = all;

    while (other != NULL && other != restricted) {
        other = other->next;
    }
    if (other == NULL) {
        restricted->next = all;
        all = restricted;
    }
}

static const void *create(void *context, struct hythe_task *task)
{
    struct hythe_freertos_restricted *restricted = task->config->memory;
    struct grants grants = {.server = &restricted->server};

    if (task->config->restriction == NULL) {
        return unrestricted.create(context, task);
    }
    memset(&restricted->server, 0, sizeof restricted->server);
    restricted->server.task = task;
    restricted->fault.kind = HYTHE_FAULT_NONE;
    remember(restricted);
    if (!grant_all(&grants, task) || !make(restricted, task, &grants)) {
        delete_all(restricted);
        return NULL;
    }
    return restricted->gate;
}

static void end(void *context, const void *identity)
{
    struct hythe_freertos_restricted *restricted = of(identity);

    if (restricted == NULL) {
        unrestricted.kill(context, identity);
        return;
    }
    hythe_freertos_leave(context, restricted->gate);
    delete_all(restricted);
}

/* The task itself, which its gate only serves. */
static const void *client_of(const void *identity)
{
    const struct hythe_freertos_restricted *restricted = of(identity);

    return restricted == NULL ? identity : restricted->client;
}

static uint32_t state(void *context, const void *identity)
{
    return unrestricted.state(context, client_of(identity));
}

static uint32_t stack_free(void *context, const void *identity)
{
    return unrestricted.stack_free(context, client_of(identity));
}

static uint64_t run_time_us(void *context, const void *identity)
{
    const struct hythe_freertos_restricted *restricted = of(identity);
    uint64_t own_us = unrestricted.run_time_us(context, identity);

    return restricted == NULL ? own_us
                              : own_us + unrestricted.run_time_us(context, restricted->client);
}

static int has_faulted(void *context, const void *identity, struct hythe_fault *why)
{
    const struct hythe_freertos_restricted *restricted = of(identity);

    (void)context;
    if (restricted == NULL || restricted->fault.kind == HYTHE_FAULT_NONE) {
        return 0;
    }
    *why = restricted->fault;
    return 1;
}

#endif

void hythe_freertos_mpu_start(struct hythe_freertos *freertos, struct hythe_port_task *port)
{
    hythe_freertos_task_start(freertos, port);
#if portUSING_MPU_WRAPPERS
    unrestricted = *port;
    port->create = create;
    port->kill = end;
    port->state = state;
    port->stack_free = stack_free;
    port->run_time_us = run_time_us;
    port->fault = has_faulted;
#endif
}
