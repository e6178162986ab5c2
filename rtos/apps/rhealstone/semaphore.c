/* A task gives a semaphore on which another is blocked. */
#include "FreeRTOS.h"
#include "semphr.h"

#include "measures.h"
#include "stage.h"

#define BOUND pdMS_TO_TICKS(10000)

static struct sampler *sampler;
static SemaphoreHandle_t semaphore;

static void giver(void)
{
    while (sampler->left > 0) {
        sample_begin(sampler, 0);
        (void)xSemaphoreGive(semaphore);
    }
}

static void taker(void)
{
    while (sampler->left > 0) {
        if (xSemaphoreTake(semaphore, BOUND) == pdTRUE) {
            sample_end(sampler, 1);
        }
    }
}

int measure_semaphore_shuffle(struct sampler *wanted)
{
    static const struct part parts[] = {{giver, PRIORITY_LOW}, {taker, PRIORITY_HIGH}};
    static StaticSemaphore_t storage;

    sampler = wanted;
    semaphore = xSemaphoreCreateBinaryStatic(&storage);
    return stage_play(parts, 2);
}
