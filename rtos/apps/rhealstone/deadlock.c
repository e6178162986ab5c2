/*
 * A task of high priority wants a mutex that one of low priority holds, while one of middle
 * priority is ready. Priority inheritance lets the holder run first; without it the middle one
 * would.
 */
#include "FreeRTOS.h"
#include "semphr.h"

#include "measures.h"
#include "stage.h"

#define BOUND pdMS_TO_TICKS(10000)

static struct sampler *sampler;
static SemaphoreHandle_t mutex;
/* The high one waits for the mutex. */
static volatile int is_wanted;
/* The middle one ran meanwhile: the priority was not inherited. */
static volatile int was_inverted;

static void holder(void)
{
    while (sampler->left > 0) {
        (void)xSemaphoreTake(mutex, BOUND);
        vTaskResume(stage_player(2));
        (void)xSemaphoreGive(mutex);
    }
}

static void bystander(void)
{
    while (sampler->left > 0) {
        vTaskSuspend(NULL);
        was_inverted |= is_wanted;
    }
}

static void wanting(void)
{
    while (sampler->left > 0) {
        vTaskSuspend(NULL);
        vTaskResume(stage_player(1));
        is_wanted = 1;
        sample_begin(sampler, 0);
        (void)xSemaphoreTake(mutex, BOUND);
        sample_end(sampler, 1);
        is_wanted = 0;
        (void)xSemaphoreGive(mutex);
    }
}

int measure_deadlock_break(struct sampler *wanted)
{
    static const struct part parts[] = {
        {holder, PRIORITY_LOW},
        {bystander, PRIORITY_MIDDLE},
        {wanting, PRIORITY_HIGH},
    };
    static StaticSemaphore_t storage;

    sampler = wanted;
    mutex = xSemaphoreCreateMutexStatic(&storage);
    return stage_play(parts, 3) && !was_inverted;
}
