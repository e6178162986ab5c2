/* A task raises an interrupt by software, and its handler takes the time. */
#include "measures.h"
#include "stage.h"

static struct sampler *sampler;

static void handler(void)
{
    sample_end(sampler, 1);
}

static void requester(void)
{
    while (sampler->left > 0) {
        sample_begin(sampler, 0);
        measure_interrupt_request();
    }
}

int measure_interrupt_latency(struct sampler *wanted)
{
    static const struct part parts[] = {{requester, PRIORITY_LOW}};

    sampler = wanted;
    measure_interrupt_open(handler);
    return stage_play(parts, 1);
}
