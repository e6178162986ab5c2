/*
 * Which registered task has which buffer, and which of them sleep. Called by take.c, give.c and
 * wait.c under the lock, through the link's tracker; linked only into programs with hythe_task.h.
 * Never decides whether a task may have a buffer: one that finds the table full is counted.
 */
#include "descriptor.h"
#include "link.h"
#include "task.h"

static struct hythe_tasks *tasks_of(const struct hythe_tracker *tracker)
{
    return (struct hythe_tasks *)(uintptr_t)tracker;
}

/* Also without the lock: of all identities its own stays as it is while it runs. */
static uint32_t number(const struct hythe_tracker *tracker)
{
    const struct hythe_tasks_config *config = &tasks_of(tracker)->config;
    const void *identity = config->port->self(config->port->context);
    uint32_t i;

    for (i = 0; i < config->count; i++) {
        if (config->tasks[i].identity == identity) {
            return i + 1;
        }
    }
    return 0;
}

static struct hythe_task *self(const struct hythe_tracker *tracker)
{
    uint32_t own = number(tracker);

    return own == 0 ? NULL : &tasks_of(tracker)->config.tasks[own - 1];
}

static void took(struct hythe_tracker *tracker, struct hythe_buffer *buffer)
{
    struct hythe_tasks *tasks = tasks_of(tracker);
    struct hythe_task *task = self(tracker);
    struct hythe_held *held = tasks->config.held;
    uint32_t i;
    uint32_t word;

    if (task == NULL) {
        return;
    }
    for (i = 0; i < tasks->config.held_count; i++, held++) {
        if (held->owner == NULL) {
            held->owner = task;
            held->endpoint = buffer->endpoint;
            held->port = buffer->port;
            held->attachment = buffer->attachment;
            for (word = 0; word < HYTHE_WORDS; word++) {
                held->words[word] = buffer->words[word];
            }
            buffer->tracked = i + 1;
            return;
        }
    }
    tasks->untracked++;
}

static void gave(struct hythe_tracker *tracker, struct hythe_buffer *buffer)
{
    const struct hythe_tasks_config *config = &tasks_of(tracker)->config;
    uint32_t place = buffer->tracked - 1;

    buffer->tracked = 0;
    /* The number stands in the program's memory, so it may be wrong; 0 less 1 is too large. */
    if (place < config->held_count && config->held[place].endpoint == buffer->endpoint &&
        config->held[place].words[HYTHE_WORD_PLACE] == buffer->words[HYTHE_WORD_PLACE]) {
        config->held[place].owner = NULL;
    }
}

static void sleeps(const struct hythe_tracker *tracker, uint32_t sleeps)
{
    struct hythe_task *task = self(tracker);

    if (task != NULL) {
        task->sleeps = sleeps;
    }
}

void hythe_held_start(struct hythe_tasks *tasks)
{
    uint32_t i;

    for (i = 0; i < tasks->config.held_count; i++) {
        tasks->config.held[i].owner = NULL;
    }
    tasks->untracked = 0;
    tasks->tracker.self = self;
    tasks->tracker.took = took;
    tasks->tracker.gave = gave;
    tasks->tracker.sleeps = sleeps;
    tasks->tracker.number = number;
    tasks->config.link->tracker = &tasks->tracker;
}

uint32_t hythe_held_release(const struct hythe_task *task)
{
    const struct hythe_tasks_config *config = &task->tasks->config;
    uint32_t count = 0;
    uint32_t i;

    for (i = 0; i < config->held_count; i++) {
        struct hythe_held *held = &config->held[i];
        struct hythe_buffer buffer;
        if (held->owner != task) {
            continue;
        }
        /* Good, as it was when it came: while a buffer is held, the geometry stays. */
        (void)hythe_take_accept(held->endpoint, &buffer, held->words);
        buffer.endpoint = held->endpoint;
        buffer.port = held->port;
        buffer.attachment = held->attachment;
        buffer.tracked = i + 1;
        (void)hythe_release(&buffer);
        count++;
    }
    return count;
}

uint32_t hythe_held_count(const struct hythe_task *task)
{
    const struct hythe_tasks_config *config = &task->tasks->config;
    uint32_t count = 0;
    uint32_t i;

    for (i = 0; i < config->held_count; i++) {
        count += config->held[i].owner == task;
    }
    return count;
}

void hythe_buffer_adopt(struct hythe_buffer *buffer)
{
    struct hythe_link *link;

    if (buffer == NULL || buffer->endpoint == NULL) {
        return;
    }
    link = buffer->endpoint->link;
    hythe_link_lock(link);
    if (link->tracker != NULL) {
        link->tracker->gave(link->tracker, buffer);
        link->tracker->took(link->tracker, buffer);
    }
    hythe_link_unlock(link);
}
