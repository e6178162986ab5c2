/*
 * Tasks that use semaphores and queues until they are stopped or killed, each as its argument says:
 *
 * `take SEM`: takes one count, and has it until it ends.
 * `churn SEM`: takes a count and posts it, over and over.
 * `pump FROM TO`: sends what comes out of one queue, as it is, into another.
 * `hand FROM TO`: takes a count from one semaphore and posts another, over and over.
 * `write ID BYTES stored|computed FROM TO`, `read ...`: one of a pair (pair.c).
 */
#include "FreeRTOS.h"
#include "task.h"

#include "objects.h"
#include "pair.h"

/* A kill meets it in such a wait. */
#define WAIT_MS 500u
#define PUMP_BYTES 4096u
/* Tasks that pump: all workers. */
#define PUMPS 4

/* Too much for a stack. A task that was killed has its own again when it is started anew. */
static struct pumped {
    const struct hythe_task *owner;
    uint8_t message[PUMP_BYTES];
} pumped[PUMPS];

char *objects_cut(char **text)
{
    char *word = *text;
    char *end = word;

    while (*end != '\0' && *end != ' ') {
        end++;
    }
    *text = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

static void have(struct hythe_task *task, struct hythe_sem *sem, int gives_back)
{
    int taken = 0;

    while (!hythe_task_should_stop(task)) {
        if (!taken) {
            taken = hythe_sem_timedwait(sem, WAIT_MS) == 0;
        } else if (gives_back) {
            taken = hythe_sem_post(sem) != 0;
        } else {
            vTaskDelay(1);
        }
    }
    if (taken) {
        (void)hythe_sem_post(sem);
    }
}

static void hand(struct hythe_task *task, struct hythe_sem *from, struct hythe_sem *to)
{
    while (!hythe_task_should_stop(task)) {
        if (hythe_sem_timedwait(from, WAIT_MS) == 0) {
            (void)hythe_sem_post(to);
        }
    }
}

static uint8_t *message_of(const struct hythe_task *task)
{
    struct pumped *own = pumped;

    taskENTER_CRITICAL();
    while (own->owner != NULL && own->owner != task && own < pumped + PUMPS - 1) {
        own++;
    }
    own->owner = task;
    taskEXIT_CRITICAL();
    return own->message;
}

static void pump(struct hythe_task *task, struct hythe_mq *from, struct hythe_mq *to)
{
    uint8_t *message = message_of(task);
    uint32_t priority;

    while (!hythe_task_should_stop(task)) {
        int bytes = hythe_mq_timedreceive(from, message, PUMP_BYTES, &priority, WAIT_MS);
        if (bytes >= 0) {
            while (hythe_mq_timedsend(to, message, (uint32_t)bytes, priority, WAIT_MS) != 0 &&
                   !hythe_task_should_stop(task)) {
            }
        }
    }
}

void objects_run_worker(struct hythe_task *task)
{
    struct objects *objects = task->config->context;
    char *argument = task->argument;
    const char *what = objects_cut(&argument);
    const char *first;
    struct hythe_sem sem;
    struct hythe_sem next;
    struct hythe_mq from;
    struct hythe_mq to;

    if (what[0] == 'w' || what[0] == 'r') {
        pair_run(task, objects->services, what[0] == 'w', argument);
        return;
    }
    first = objects_cut(&argument);
    if (what[0] == 'p') {
        if (hythe_mq_open(objects->services, first, HYTHE_O_RDONLY, 0, NULL, &from) == 0 &&
            hythe_mq_open(objects->services, objects_cut(&argument), HYTHE_O_WRONLY, 0, NULL,
                          &to) == 0) {
            pump(task, &from, &to);
        }
    } else if (hythe_sem_open(objects->services, first, 0, 0, 0, &sem) == 0) {
        if (what[0] != 'h') {
            have(task, &sem, what[0] == 'c');
        } else if (hythe_sem_open(objects->services, objects_cut(&argument), 0, 0, 0, &next) == 0) {
            hand(task, &sem, &next);
        }
    }
    /* What is open is closed with this task. */
}
