/*
 * The service of `core/control` (spec/control.md): one request at a time, answered where it stands.
 * Called in a loop by the service task, the one of the highest priority. Waits for nothing but a
 * request, the first instruction of a task that it has made, and the agent for a segment.
 */
#include "call.h"
#include "control.h"
#include "hythe_atomic.h"
#include "hythe_rpc.h"
#include "link.h"
#include "shared.h"
#include "task.h"

/* How long a task that was made may take until it runs, and one look at it. */
#define BEGIN_MS 1000u
#define LOOK_MS 1u
/*
 * The bell that brought a request woke all tasks: before a list, those that wait sleep again, and
 * have not come to the end of their slice.
 */
#define SETTLE_MS ((HYTHE_WAIT_SLICE_MS + 1u) / 2u)
/* However long Linux waits for a segment. */
#define MAKE_MS 5000u

#define PAGE_BYTES 4096u

/* A call that is served: what it brings, and what becomes its reply. */
struct call {
    const volatile uint8_t *bytes;
    uint32_t length;
    uint32_t request[HYTHE_CALL_WORDS];
    uint8_t *reply;
    uint32_t capacity;
    uint32_t replied;
    uint32_t words[HYTHE_CALL_WORDS];
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t argument(const struct call *call, uint32_t index)
{
    return call->request[HYTHE_CALL_ARGUMENT + index];
}

static void put_value(struct call *call, uint32_t index, uint32_t value)
{
    call->words[HYTHE_CALL_VALUE + index] = value;
}

static void put_address(struct call *call, uint32_t index, const volatile void *at)
{
    uint64_t address = (uint64_t)(uintptr_t)at;

    put_value(call, index, (uint32_t)address);
    put_value(call, index + 1, (uint32_t)(address >> 32));
}

/* Puts words behind what is in the reply. 0: there is no space for `bytes` more. */
static int put_words(struct call *call, const uint32_t *words, uint32_t bytes)
{
    if (call->capacity - call->replied < bytes) {
        return 0;
    }
    hythe_words_write(call->reply + call->replied, words, bytes);
    call->replied += bytes;
    return 1;
}

/* ---- Which task ---- */

/* The number that a name of up to three digits is; 0: it is none. */
static uint32_t number_of(const struct call *call)
{
    uint32_t number = 0;
    uint32_t i;

    for (i = 0; i < argument(call, 0); i++) {
        uint32_t digit = (uint32_t)call->bytes[i] - '0';
        if (digit > 9 || i == 3) {
            return 0;
        }
        number = 10 * number + digit;
    }
    return number;
}

static int is_called(const struct hythe_task *task, const struct call *call)
{
    const char *name = task->config->name;
    uint32_t i;

    for (i = 0; i < argument(call, 0); i++) {
        /* A name that ends here has a zero byte, which is no byte of the other. */
        uint8_t byte = call->bytes[i];
        if (byte == 0 || (uint8_t)name[i] != byte) {
            return 0;
        }
    }
    return name[i] == '\0';
}

/*
 * The first task of that name, or the one of that number, that lives (1) or does not (0). NULL, and
 * `others` says how many there are that do the other. Linux may write the name meanwhile: then
 * another task is found, or none, as if it had asked for that.
 */
static struct hythe_task *find(const struct hythe_service *service, struct call *call, int lives,
                               uint32_t *others)
{
    const struct hythe_tasks_config *config = &service->config.tasks->config;
    uint32_t number = number_of(call);
    uint32_t i;

    *others = 0;
    for (i = 0; i < config->count; i++) {
        struct hythe_task *task = &config->tasks[i];
        if (number != 0 ? number != i + 1 : !is_called(task, call)) {
            continue;
        }
        if (hythe_task_lives(task) == lives) {
            put_value(call, 0, i + 1);
            return task;
        }
        ++*others;
    }
    return NULL;
}

static int is_name(const struct call *call)
{
    return argument(call, 0) != 0 && argument(call, 0) <= HYTHE_TASK_NAME_BYTES &&
           argument(call, 0) <= call->length;
}

/* ---- Methods; each returns the result of the reply ---- */

static int32_t hello(struct hythe_service *service, struct call *call)
{
    put_value(call, 0, HYTHE_CONTROL_VERSION);
    put_value(call, 1, service->config.tasks->config.count);
    put_address(call, 2, service->config.segments);
    return 0;
}

static uint32_t state_of(const struct hythe_task *task)
{
    const struct hythe_port_task *port = task->tasks->config.port;

    switch (hythe_load_relaxed(&task->state)) {
    case TASK_STOPPED:
        return HYTHE_TASK_IS_STOPPED;
    case TASK_STARTING:
        return HYTHE_TASK_IS_STARTING;
    case TASK_KILLED:
        return HYTHE_TASK_IS_KILLED;
    case TASK_FAULTED:
        return HYTHE_TASK_IS_FAULTED;
    default:
        return HYTHE_TASK_IS_RUNNING + port->state(port->context, task->identity);
    }
}

/* Place of a word of a task's row behind its name. */
#define AT(field) ((HYTHE_TASK_AT_##field - HYTHE_TASK_AT_NUMBER) / 4)

static int write_task(struct call *call, const struct hythe_task *task, uint32_t number)
{
    const struct hythe_task_config *config = task->config;
    const struct hythe_port_task *port = task->tasks->config.port;
    const char *name = config->name;
    uint32_t row[(HYTHE_TASK_ROW_BYTES - HYTHE_TASK_AT_NUMBER) / 4] = {0};
    uint32_t free_bytes = task->stack_free;
    uint64_t run_time_us = task->run_time_us;
    uint32_t i;

    if (call->capacity - call->replied < HYTHE_TASK_ROW_BYTES) {
        return 0;
    }
    for (i = 0; i < HYTHE_TASK_AT_NUMBER; i++) {
        call->reply[call->replied++] = (uint8_t)*name;
        name += *name != '\0';
    }
    if (task->identity != NULL) {
        free_bytes = least(port->stack_free(port->context, task->identity), free_bytes);
        run_time_us += port->run_time_us(port->context, task->identity);
    }
    row[AT(NUMBER)] = number;
    row[AT(STATE)] = state_of(task);
    row[AT(FLAGS)] = config->flags | (task->asked_to_stop != 0 ? HYTHE_TASK_FLAG_ASKED_TO_STOP : 0);
    row[AT(PRIORITY)] = config->priority;
    row[AT(STACK_BYTES)] = config->stack_bytes;
    row[AT(STACK_FREE)] = free_bytes;
    row[AT(RUN_TIME_LOW)] = (uint32_t)run_time_us;
    row[AT(RUN_TIME_HIGH)] = (uint32_t)(run_time_us >> 32);
    row[AT(STARTS)] = task->starts;
    row[AT(KILLS)] = task->kills;
    row[AT(HELD)] = hythe_held_count(task);
    row[AT(RETURNED)] = task->buffers_returned;
    row[AT(FORGOTTEN)] = task->requests_forgotten;
    if (task->fault.kind != HYTHE_FAULT_NONE) {
        row[AT(FAULT)] = task->fault.kind;
        row[AT(FAULT_ADDRESS)] = task->fault.address;
        row[AT(FAULT_PC)] = task->fault.pc;
    }
    return put_words(call, row, sizeof row);
}

/* Those from the asked number on, as many as there is space for. */
static int32_t list(struct hythe_service *service, struct call *call)
{
    const struct hythe_tasks_config *config = &service->config.tasks->config;
    const struct hythe_port *port = service->config.endpoint->link->port;
    uint32_t i;

    port->wait(port->context, SETTLE_MS);
    for (i = argument(call, 0); i < config->count; i++) {
        if (!write_task(call, &config->tasks[i], i + 1)) {
            break;
        }
    }
    put_value(call, 0, config->count);
    put_value(call, 1, service->config.tasks->untracked);
    return 0;
}

/* Lets the new task run: the caller has the highest priority. */
static int32_t await_begin(const struct hythe_service *service, const struct hythe_task *task)
{
    const struct hythe_port *port = service->config.endpoint->link->port;
    uint32_t start_ms = port->now_ms(port->context);

    while (hythe_load_acquire(&task->state) == TASK_STARTING) {
        if (port->now_ms(port->context) - start_ms >= BEGIN_MS) {
            return HYTHE_CONTROL_NOT_BEGUN;
        }
        port->wait(port->context, LOOK_MS);
    }
    return 0;
}

static int32_t start(struct hythe_service *service, struct call *call)
{
    uint32_t running;
    struct hythe_task *task;

    if (!is_name(call)) {
        return HYTHE_CONTROL_MALFORMED;
    }
    task = find(service, call, 0, &running);
    if (task == NULL) {
        return running == 0   ? HYTHE_CONTROL_UNKNOWN
               : running == 1 ? HYTHE_CONTROL_RUNS
                              : HYTHE_CONTROL_TOO_MANY;
    }
    if (call->length - argument(call, 0) > HYTHE_TASK_ARGUMENT_BYTES) {
        return HYTHE_CONTROL_TOO_LONG;
    }
    if (!hythe_task_begin(task, call->bytes + argument(call, 0),
                          call->length - argument(call, 0))) {
        return HYTHE_CONTROL_NO_MEMORY;
    }
    return await_begin(service, task);
}

/* The task that is to end. NULL, and why there is none. */
static struct hythe_task *find_ending(struct hythe_service *service, struct call *call,
                                      int32_t *result)
{
    struct hythe_task *task = NULL;
    uint32_t others = 0;

    *result = HYTHE_CONTROL_MALFORMED;
    if (!is_name(call)) {
        return NULL;
    }
    task = find(service, call, 1, &others);
    *result = others == 0 ? HYTHE_CONTROL_UNKNOWN : HYTHE_CONTROL_NOT_RUNNING;
    if (task != NULL && (task->config->flags & HYTHE_TASK_PERMANENT) != 0) {
        *result = HYTHE_CONTROL_PERMANENT;
        return NULL;
    }
    return task;
}

static int32_t stop(struct hythe_service *service, struct call *call)
{
    int32_t result;
    struct hythe_task *task = find_ending(service, call, &result);

    if (task == NULL) {
        return result;
    }
    hythe_store_relaxed(&task->asked_to_stop, 1);
    return 0;
}

static int32_t kill(struct hythe_service *service, struct call *call)
{
    int32_t result;
    struct hythe_task *task = find_ending(service, call, &result);
    uint32_t buffers;
    uint32_t requests;

    if (task == NULL) {
        return result;
    }
    buffers = task->buffers_returned;
    requests = task->requests_forgotten;
    task->kills++;
    hythe_task_end(task, TASK_KILLED);
    put_value(call, 1, task->buffers_returned - buffers);
    put_value(call, 2, task->requests_forgotten - requests);
    return 0;
}

static int write_port(struct call *call, const struct hythe_endpoint *endpoint, uint32_t port)
{
    const struct hythe_flow *flow = &endpoint->flows[port];
    const uint32_t row[HYTHE_PORT_ROW_BYTES / 4] = {
        endpoint->index,
        port,
        flow->session,
        flow->inbox_head,
        flow->outbox_tail,
        flow->head_seen,
        flow->held,
        flow->window,
        (flow->quarantined != 0 ? HYTHE_PORT_FLAG_QUARANTINED : 0) |
            (flow->late != 0 ? HYTHE_PORT_FLAG_LATE : 0),
    };

    return put_words(call, row, sizeof row);
}

static int32_t state(struct hythe_service *service, struct call *call)
{
    struct hythe_link *link = service->config.endpoint->link;
    uint32_t i;
    uint32_t port;

    hythe_link_lock(link);
    put_value(call, 0, link->session);
    put_value(call, 1, link->linux_session);
    put_value(call, 2, link->state);
    put_value(call, 3, link->bell_count);
    put_value(call, 4, link->sleepers);
    for (i = 0; i < link->endpoint_count; i++) {
        const struct hythe_endpoint *endpoint = &link->endpoints[i];
        for (port = 0; endpoint->attached >> port != 0; port++) {
            if (hythe_flow_is_attached(endpoint, port) && !write_port(call, endpoint, port)) {
                break;
            }
        }
    }
    hythe_link_unlock(link);
    return 0;
}

/* The program says whether, and asks the agent: Linux has it made by this core. */
static int32_t make_segment(struct hythe_service *service, struct call *call)
{
    const struct hythe_service_config *config = &service->config;
    int32_t id;

    if (config->make_segment == NULL) {
        return HYTHE_CONTROL_NO_METHOD;
    }
    id = config->make_segment(config->context, (int32_t)argument(call, 0), argument(call, 1),
                              argument(call, 2), least(call->request[HYTHE_CALL_TIMEOUT], MAKE_MS));
    put_value(call, 0, (uint32_t)id);
    return id < 0 ? id : 0;
}

/* One byte of the area of segments, and where it stands here. */
static int32_t peek(struct hythe_service *service, struct call *call)
{
    const struct hythe_service_config *config = &service->config;
    const volatile uint8_t *at = config->segments;

    if (argument(call, 0) >= config->segments_bytes / PAGE_BYTES ||
        argument(call, 1) >= PAGE_BYTES) {
        return HYTHE_CONTROL_MALFORMED;
    }
    at += (size_t)argument(call, 0) * PAGE_BYTES + argument(call, 1);
    hythe_invalidate(config->endpoint->link->port, at, 1);
    put_value(call, 0, *at);
    put_address(call, 1, at);
    return 0;
}

/* Asks all to stop that were started by name. This request is no buffer of the program. */
static int32_t shut_down(struct hythe_service *service, struct call *call)
{
    const struct hythe_tasks_config *config = &service->config.tasks->config;
    const struct hythe_link *link = service->config.endpoint->link;
    uint32_t held = 0;
    uint32_t asked = 0;
    uint32_t i;

    for (i = 0; i < config->count; i++) {
        struct hythe_task *task = &config->tasks[i];
        if (hythe_task_lives(task) && task->config->flags == 0) {
            hythe_store_relaxed(&task->asked_to_stop, 1);
            asked++;
        }
    }
    for (i = 0; i < link->endpoint_count; i++) {
        held += link->endpoints[i].counters.held;
    }
    put_value(call, 0, asked);
    put_value(call, 1, held - 1);
    return 0;
}

/* ---- Requests ---- */

static int32_t dispatch(struct hythe_service *service, struct call *call)
{
    static const struct {
        uint32_t method;
        int32_t (*serve)(struct hythe_service *service, struct call *call);
    } table[] = {
        {HYTHE_CONTROL_HELLO, hello},        {HYTHE_CONTROL_MAKE, make_segment},
        {HYTHE_CONTROL_TASKS, list},         {HYTHE_CONTROL_START, start},
        {HYTHE_CONTROL_STOP, stop},          {HYTHE_CONTROL_KILL, kill},
        {HYTHE_CONTROL_STATE, state},        {HYTHE_CONTROL_PEEK, peek},
        {HYTHE_CONTROL_SHUTDOWN, shut_down},
    };
    uint32_t i;

    for (i = 0; i < sizeof table / sizeof table[0]; i++) {
        if ((call->request[HYTHE_CALL_METHOD] ^ HYTHE_METHOD_OF_HYTHE) == table[i].method) {
            return table[i].serve(service, call);
        }
    }
    return HYTHE_CONTROL_NO_METHOD;
}

static int answer(struct hythe_service *service, struct hythe_buffer *request)
{
    struct call call = {0};

    if (request->length < HYTHE_CALL_BYTES) {
        return hythe_call_refuse(request);
    }
    hythe_call_read(request->data, call.request);
    call.bytes = request->data + HYTHE_CALL_BYTES;
    call.length = request->length - HYTHE_CALL_BYTES;
    call.words[HYTHE_CALL_METHOD] = call.request[HYTHE_CALL_METHOD];
    if (call.words[HYTHE_CALL_METHOD] == 0 || call.request[HYTHE_CALL_LENGTH] != call.length) {
        return hythe_call_refuse(request);
    }
    call.reply = request->data + HYTHE_CALL_BYTES;
    call.capacity = least(hythe_reply_capacity(request), HYTHE_CONTROL_BYTES) - HYTHE_CALL_BYTES;
    call.words[HYTHE_CALL_RESULT] = (uint32_t)dispatch(service, &call);
    call.words[HYTHE_CALL_LENGTH] = call.replied;
    hythe_call_write(request->data, call.words);
    return hythe_reply(request, HYTHE_CALL_BYTES + call.replied);
}

/* ---- Public ---- */

int hythe_service_start(struct hythe_service *service, const struct hythe_service_config *config)
{
    if (service == NULL || config == NULL || config->tasks == NULL || config->endpoint == NULL ||
        config->endpoint->kind != HYTHE_KIND_REQUESTS ||
        config->endpoint->direction != HYTHE_TO_CORE) {
        return HYTHE_E_ARGUMENT;
    }
    service->config = *config;
    return HYTHE_OK;
}

int hythe_service_run(struct hythe_service *service, uint32_t timeout_ms)
{
    struct hythe_buffer request;
    int result;

    hythe_tasks_reap(service->config.tasks);
    result = hythe_receive(service->config.endpoint, &request, timeout_ms);
    if (result != HYTHE_OK) {
        return result;
    }
    hythe_tasks_reap(service->config.tasks);
    return answer(service, &request);
}
