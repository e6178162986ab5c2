/* What a reading of the clock costs, edges of the pin included: it is part of every sample. */
#include "measures.h"
#include "stage.h"

static struct sampler *sampler;

static void reader(void)
{
    while (sampler->left > 0) {
        sample_begin(sampler, 0);
        sample_end(sampler, 1);
    }
}

int measure_clock_read(struct sampler *wanted)
{
    static const struct part parts[] = {{reader, PRIORITY_LOW}};

    sampler = wanted;
    return stage_play(parts, 1);
}
