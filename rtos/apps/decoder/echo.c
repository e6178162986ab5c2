/*
 * The echo tasks. They run for ever; between two rounds no buffer is held. Only replies look at a
 * payload.
 */
#include "echo.h"

/* Bounds each wait; the loop goes on. */
#define WAIT_MS 1000u
#define OPEN_WAIT_MS 1u

void echo_run(void *argument)
{
    struct echo *echo = argument;
    struct hythe_buffer buffer;

    for (;;) {
        /* There is one wait for one endpoint: with open questions it is short. */
        uint32_t wait_ms = echo->query.open_count != 0 ? OPEN_WAIT_MS : WAIT_MS;
        int result = hythe_receive(echo->ping, &buffer, wait_ms);
        query_answer(&echo->query);
        if (result != HYTHE_OK || query_ask(&echo->query, &buffer)) {
            continue;
        }
        /* Whoever pings without listening for the pong gets the buffer back unread. */
        if (hythe_forward(&buffer, echo->pong, WAIT_MS) < 0) {
            (void)hythe_release(&buffer);
        }
    }
}

void answer_run(void *argument)
{
    const struct echo *echo = argument;
    uint64_t events;

    for (;;) {
        if (hythe_event_wait(echo->knock, &events, WAIT_MS) == HYTHE_OK) {
            /* Nobody may listen: then the events are gone, as they are between processes. */
            (void)hythe_event_raise(echo->answer, events);
        }
    }
}

/*
 * A reply has the bytes of its request in reverse order: so it is one. An empty request gets none.
 */
static void reverse(uint8_t *bytes, uint32_t count)
{
    uint32_t i;

    for (i = 0; i < count / 2; i++) {
        uint8_t first = bytes[i];
        bytes[i] = bytes[count - 1 - i];
        bytes[count - 1 - i] = first;
    }
}

void reply_run(void *argument)
{
    const struct echo *echo = argument;
    struct hythe_buffer request;

    for (;;) {
        if (hythe_receive(echo->ask, &request, WAIT_MS) != HYTHE_OK) {
            continue;
        }
        if (request.length == 0) {
            (void)hythe_release(&request);
            continue;
        }
        reverse(request.data, request.length);
        (void)hythe_reply(&request, request.length);
    }
}
