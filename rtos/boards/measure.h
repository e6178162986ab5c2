/*
 * What a board offers to a program that measures its latencies: a clock, a pin, an interrupt on
 * request, and a timer.
 *
 * Only one program runs on a core, and it calls these from one task at a time, measure_clock() and
 * measure_pin() from its handlers, too. A board knows nothing of what is measured.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

/* What figures of this board depend on; text for people and for comparing. */
struct measure_facts {
    const char *board;
    /* Which device counts, and how often a second. It counts up and wraps at 2^32. */
    const char *clock;
    uint32_t clock_hz;
    /* Where edges of the pin can be seen from outside; "none": nowhere. */
    const char *pin;
};

extern const struct measure_facts measure_facts;

/* Handlers run in the interrupt; they may not call FreeRTOS. */
typedef void (*measure_interrupt)(void);
/* `lateness` in ticks of the clock: since the instant for which the timer was programmed. */
typedef void (*measure_alarm)(uint32_t lateness);

/* Starts the clock and the pin. Once, before anything below. */
void measure_start(void);

/* Ticks of the clock now. */
uint32_t measure_clock(void);

/*
 * One edge on the pin: writes this byte to a device that can be observed from outside. Never waits.
 */
void measure_pin(char edge);

/*
 * Who handles requests; then each measure_interrupt_request() interrupts the caller before it
 * returns.
 */
void measure_interrupt_open(measure_interrupt handler);
void measure_interrupt_request(void);

/*
 * Between the two a request stays pending. Not nested, and short: nothing else interrupts either.
 */
void measure_interrupt_mask(void);
void measure_interrupt_unmask(void);

/* Interrupts every `period` ticks from now on, until stopped. */
void measure_timer_start(uint32_t period, measure_alarm handler);
void measure_timer_stop(void);

#endif
