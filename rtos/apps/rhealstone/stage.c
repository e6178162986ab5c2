/* The players and what the director does with them. Static memory only. */
#include "stage.h"

#include "board.h"

#define STACK_WORDS (2u * 1024u / sizeof(StackType_t) + configMINIMAL_STACK_SIZE)
/* Far beyond ten thousand samples on any board. */
#define BOUND pdMS_TO_TICKS(60000)

static StackType_t stacks[STAGE_PLAYERS][STACK_WORDS];
static StaticTask_t storage[STAGE_PLAYERS];
static TaskHandle_t players[STAGE_PLAYERS];
static const struct part *current[STAGE_PLAYERS];
static TaskHandle_t director;

static void player_run(void *argument)
{
    const struct part **part = argument;

    for (;;) {
        while (ulTaskNotifyTake(pdTRUE, BOUND) == 0) {
        }
        (*part)->play();
        xTaskNotifyGive(director);
    }
}

void stage_open(void)
{
    static const char *const names[STAGE_PLAYERS] = {"first", "second", "third"};
    unsigned i;

    for (i = 0; i < STAGE_PLAYERS; i++) {
        players[i] = xTaskCreateStatic(player_run, names[i], STACK_WORDS, &current[i], PRIORITY_LOW,
                                       stacks[i], &storage[i]);
        configASSERT(players[i] != NULL);
    }
}

int stage_play(const struct part *parts, unsigned count)
{
    unsigned i;

    director = xTaskGetCurrentTaskHandle();
    for (i = 0; i < count; i++) {
        current[i] = &parts[i];
        vTaskPrioritySet(players[i], parts[i].priority);
        xTaskNotifyGive(players[i]);
    }
    for (i = 0; i < count; i++) {
        if (ulTaskNotifyTake(pdFALSE, BOUND) == 0) {
            return 0;
        }
    }
    return 1;
}

TaskHandle_t stage_player(unsigned index)
{
    return players[index];
}
