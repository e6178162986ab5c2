/* A task of low priority resumes one of high priority. */
#include "measures.h"
#include "stage.h"

static struct sampler *sampler;

static void preempted(void)
{
    while (sampler->left > 0) {
        sample_begin(sampler, 0);
        vTaskResume(stage_player(1));
    }
}

static void preempting(void)
{
    while (sampler->left > 0) {
        vTaskSuspend(NULL);
        sample_end(sampler, 1);
    }
}

int measure_preemption(struct sampler *wanted)
{
    static const struct part parts[] = {{preempted, PRIORITY_LOW}, {preempting, PRIORITY_HIGH}};

    sampler = wanted;
    return stage_play(parts, 2);
}
