/* A timer's handler looks how late it is, while a task computes. */
#include "measures.h"
#include "stage.h"

/* No divisor of the tick's period, so that the two meet in every phase. */
#define PERIOD_US 997u

static struct sampler *sampler;

static void handler(uint32_t lateness)
{
    if (sampler->left == 0) {
        return;
    }
    measure_pin((char)(sampler->edge | 0x20));
    hythe_histogram_add(&sampler->histogram, lateness);
    sampler->left--;
}

static void computing(void)
{
    while (sampler->left > 0) {
    }
}

int measure_timer_jitter(struct sampler *wanted)
{
    static const struct part parts[] = {{computing, PRIORITY_LOW}};
    int good;

    sampler = wanted;
    sampler->period = (uint32_t)((uint64_t)measure_facts.clock_hz * PERIOD_US / 1000000u);
    /* Whoever sees the pin knows from here on when each alarm is due. */
    measure_pin(PIN_PROGRAMMED);
    measure_timer_start(sampler->period, handler);
    measure_pin(PIN_PROGRAMMED);
    good = stage_play(parts, 1);
    measure_timer_stop();
    return good;
}
