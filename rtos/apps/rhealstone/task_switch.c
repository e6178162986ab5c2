/* Two tasks of one priority yield to each other. */
#include "measures.h"
#include "stage.h"

static struct sampler *sampler;

static void switch_to_and_fro(int party)
{
    while (sampler->left > 0) {
        sample_begin(sampler, party);
        taskYIELD();
        if (sampler->left > 0) {
            sample_end(sampler, party);
        }
    }
}

static void first(void)
{
    switch_to_and_fro(0);
}

static void second(void)
{
    /* The first has begun a sample: it is this one's to end. */
    sample_end(sampler, 1);
    switch_to_and_fro(1);
}

int measure_task_switch(struct sampler *wanted)
{
    static const struct part parts[] = {{first, PRIORITY_LOW}, {second, PRIORITY_LOW}};

    sampler = wanted;
    return stage_play(parts, 2);
}
