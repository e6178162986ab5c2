/*
 * Tasks that Linux lists, starts, stops and kills by name (spec/control.md).
 *
 * A program registers its tasks in a table, and one more task, the service task, serves the
 * endpoint `core/control`. It has the highest priority of the program, and no other task has it:
 * so whenever it runs, no other task is inside the library, and it may end any of them.
 *
 * What a registered task has of the library is known to the table: buffers, open requests, and
 * that it sleeps. When the task ends, by returning or by a kill, all of it goes back at once and
 * is counted. What it has of the agent's services goes back, too: attached segments, open
 * semaphores and queues; what it took from a semaphore is a dead holder's (hythe_sem.h). What else
 * it has, such as a mutex of the program, is the program's own business: a task that may be killed
 * has nothing of others between two calls.
 *
 * All memory is the caller's. Linked only into programs that use it; without it the library tells
 * tasks apart nowhere. Results are those of hythe_rt.h unless a function says otherwise.
 */
#ifndef HYTHE_TASK_H
#define HYTHE_TASK_H

#include "hythe_port_task.h"
#include "hythe_rt.h"

/* The longest name, and the longest argument, in bytes. */
#define HYTHE_TASK_NAME_BYTES 32u
#define HYTHE_TASK_ARGUMENT_BYTES 63u

enum hythe_task_flag {
    /* It runs from the start of the program on. */
    HYTHE_TASK_AT_START = 1,
    /* Linux can neither stop nor kill it. */
    HYTHE_TASK_PERMANENT = 2
};

struct hythe_restriction;

/* One task. Several may have the same name: then a start takes the first that does not run. */
struct hythe_task_config {
    /* 1 to 32 bytes. One to three digits alone would be taken for a number. */
    const char *name;
    /*
     * Runs in the new task. It may return: then the task has stopped, and may be started again.
     * Between its start and its end `task->argument` is what Linux said.
     */
    void (*run)(struct hythe_task *task);
    /* For `run`. */
    void *context;
    /* Aligned as the platform asks. */
    void *stack;
    uint32_t stack_bytes;
    /* Lower than that of the service task, but for the service task itself. */
    uint32_t priority;
    /* enum hythe_task_flag */
    uint32_t flags;
    /* What the platform keeps of it; with FreeRTOS a StaticTask_t. */
    void *memory;
    /*
     * NULL: it may do what the program may. Else all that it may, where the platform can restrict
     * tasks: its port says what this points to, and what `run` and `memory` are then.
     */
    const struct hythe_restriction *restriction;
};

struct hythe_services;
struct hythe_tasks;

/* Caller-owned; only the library writes it. */
struct hythe_task {
    const struct hythe_task_config *config;
    /* Bytes, ended by a zero byte that does not count. */
    char argument[HYTHE_TASK_ARGUMENT_BYTES + 1];
    uint32_t argument_bytes;
    /* Private. */
    struct hythe_tasks *tasks;
    const void *identity;
    volatile uint32_t state;
    volatile uint32_t asked_to_stop;
    /* It is one of the link's sleepers. */
    uint32_t sleeps;
    /* The agent does not know yet that it has ended. */
    uint32_t untold;
    uint32_t starts;
    uint32_t kills;
    /* Why the processor stopped it, since it was started last. */
    struct hythe_fault fault;
    /* The same, until the agent was told; its kind is HYTHE_FAULT_NONE then. */
    struct hythe_fault fault_untold;
    /* Buffers and requests that it had when it ended, of all its lives. */
    uint32_t buffers_returned;
    uint32_t requests_forgotten;
    /* Of its earlier lives. */
    uint32_t stack_free;
    uint64_t run_time_us;
};

/* A buffer that a registered task has; private, the caller gives the memory. 48 bytes. */
struct hythe_held {
    struct hythe_task *owner;
    struct hythe_endpoint *endpoint;
    uint32_t port;
    uint32_t attachment;
    uint32_t words[8];
};

/* What hythe_tasks_start() needs. What it points to must outlive the link. */
struct hythe_tasks_config {
    struct hythe_link *link;
    const struct hythe_port_task *port;
    /* `count` of each; the number of a task is its place here, from 1 on. */
    const struct hythe_task_config *configs;
    struct hythe_task *tasks;
    uint32_t count;
    /* As many as registered tasks may have buffers at once. */
    struct hythe_held *held;
    uint32_t held_count;
    /* All clients with which registered tasks ask; started before. */
    struct hythe_client *const *clients;
    uint32_t client_count;
    /* The services that they use; NULL: none. Their clients are among `clients`. */
    struct hythe_services *services;
};

/* The registered tasks of a program. Private. */
struct hythe_tasks {
    struct hythe_tracker tracker;
    struct hythe_tasks_config config;
    /* Buffers that were taken while `held` was full: a kill of their tasks loses them. */
    uint32_t untracked;
};

/* What hythe_service_start() needs. */
struct hythe_service_config {
    struct hythe_tasks *tasks;
    /* Direction HYTHE_TO_CORE, kind HYTHE_KIND_REQUESTS, `max_bytes` HYTHE_CONTROL_BYTES. */
    struct hythe_endpoint *endpoint;
    /* The area of segments under this core's address, as its board has it; NULL and 0: none. */
    void *segments;
    size_t segments_bytes;
    /*
     * Makes a segment that Linux wants made by this core (HYTHE_SHM_ON_CORE), as hythe_shmget()
     * does, in the service task: its id, or a negative error number, also to refuse it
     * (-HYTHE_EACCES). The service waits for nothing else meanwhile, `timeout_ms` at most. NULL:
     * this program makes none.
     */
    int (*make_segment)(void *context, int32_t key, uint32_t size, uint32_t flags,
                        uint32_t timeout_ms);
    void *context;
};

/* The service of `core/control`. Private. */
struct hythe_service {
    struct hythe_service_config config;
};

/*
 * Registers the tasks, and makes those that run from the start. Once, behind hythe_link_start(),
 * before any task runs. Never blocks.
 *
 * HYTHE_OK; HYTHE_E_ARGUMENT: a name is empty or too long, a pointer is missing, a task is
 * restricted and the platform cannot do that, or it could not make a task.
 */
int hythe_tasks_start(struct hythe_tasks *tasks, const struct hythe_tasks_config *config);

/* Has Linux asked the task to stop? Then it should give back what it has, and return. */
int hythe_task_should_stop(const struct hythe_task *task);

/*
 * The calling task has this buffer from now on: for one that was passed from task to task. Never
 * blocks.
 */
void hythe_buffer_adopt(struct hythe_buffer *buffer);

/*
 * For the platform's `create`: the whole life of a task but for its end, which the service task
 * brings. Returns when `run` has.
 */
void hythe_task_main(struct hythe_task *task);

/* The largest request and reply of `core/control`. */
#define HYTHE_CONTROL_BYTES 3840u

/*
 * Prepares the service; `config` may be dropped after the call.
 *
 * HYTHE_OK; HYTHE_E_ARGUMENT: tasks or endpoint are missing, or it is another kind of endpoint.
 */
int hythe_service_start(struct hythe_service *service, const struct hythe_service_config *config);

/*
 * Serves one request that comes over the endpoint, after what tasks that have returned had was
 * taken back. Called in a loop by the service task. Blocks up to `timeout_ms` until a request
 * comes; then, where it starts a task, up to a second until that has run its first instruction,
 * and where it makes a segment, up to 5 seconds for the agent.
 *
 * Results as hythe_rpc_serve().
 */
int hythe_service_run(struct hythe_service *service, uint32_t timeout_ms);

/*
 * Tells the agent of tasks that the processor has stopped: it notes them in the core's log, and
 * raises an event for those who listen. By the service task, each time behind hythe_service_run(),
 * in a program with restricted tasks. Never blocks: what cannot be told now is with a later call;
 * of several faults of one task, the last.
 */
void hythe_tasks_tell_faults(struct hythe_tasks *tasks, struct hythe_services *services);

#endif
