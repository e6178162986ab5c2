/*
 * Tells the agent which restricted tasks the processor has stopped (spec/services.md). Called by
 * the service task; linked only into programs with such tasks. Never blocks: what nobody could be
 * told now waits in the task's record.
 */
#include "hythe_services.h"
#include "link.h"
#include "services.h"
#include "shared.h"
#include "task.h"

/* 0: not now. */
static int tell(struct hythe_client *client, const struct hythe_task *task, uint32_t number)
{
    const struct hythe_fault *fault = &task->fault_untold;
    const char *name = task->config->name;
    uint32_t words[HYTHE_CALL_WORDS] = {0};

    words[HYTHE_CALL_METHOD] = HYTHE_METHOD_TASK_EVENT;
    words[HYTHE_CALL_TASK] = number;
    words[HYTHE_CALL_FLAGS] = fault->kind;
    words[HYTHE_CALL_ARGUMENT] = fault->address;
    words[HYTHE_CALL_ARGUMENT + 1] = fault->pc;
    words[HYTHE_CALL_LENGTH] = hythe_name_bytes(name);
    return hythe_call_tell(client, words, name) == HYTHE_OK;
}

void hythe_tasks_tell_faults(struct hythe_tasks *tasks, struct hythe_services *services)
{
    uint32_t i;

    for (i = 0; i < tasks->config.count; i++) {
        struct hythe_task *task = &tasks->config.tasks[i];
        if (task->fault_untold.kind != HYTHE_FAULT_NONE && tell(&services->client, task, i + 1)) {
            task->fault_untold.kind = HYTHE_FAULT_NONE;
        }
    }
}
