/* A task sends 16 bytes to the task that waits for them. */
#include "FreeRTOS.h"
#include "queue.h"

#include "measures.h"
#include "stage.h"

#define BOUND pdMS_TO_TICKS(10000)

enum {
    MESSAGE_WORDS = 4
};

static struct sampler *sampler;
static QueueHandle_t queue;

static void sender(void)
{
    uint32_t message[MESSAGE_WORDS] = {0};

    while (sampler->left > 0) {
        sample_begin(sampler, 0);
        (void)xQueueSend(queue, message, BOUND);
        message[0]++;
    }
}

static void receiver(void)
{
    uint32_t message[MESSAGE_WORDS];

    while (sampler->left > 0) {
        if (xQueueReceive(queue, message, BOUND) == pdTRUE) {
            sample_end(sampler, 1);
        }
    }
}

int measure_message_latency(struct sampler *wanted)
{
    static const struct part parts[] = {{sender, PRIORITY_LOW}, {receiver, PRIORITY_HIGH}};
    static StaticQueue_t storage;
    static uint8_t room[MESSAGE_WORDS * sizeof(uint32_t)];

    sampler = wanted;
    queue = xQueueCreateStatic(1, sizeof room, room, &storage);
    return stage_play(parts, 2);
}
