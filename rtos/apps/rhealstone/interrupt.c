/*
 * A task raises an interrupt by software, and its handler takes the time; and what the raising
 * alone costs.
 */
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

static void nobody(void)
{
}

static void raiser(void)
{
    while (sampler->left > 0) {
        measure_interrupt_mask();
        sample_begin(sampler, 0);
        measure_interrupt_request();
        sample_end(sampler, 1);
        measure_interrupt_unmask();
    }
}

int measure_interrupt_request_cost(struct sampler *wanted)
{
    static const struct part parts[] = {{raiser, PRIORITY_LOW}};

    sampler = wanted;
    measure_interrupt_open(nobody);
    return stage_play(parts, 1);
}
