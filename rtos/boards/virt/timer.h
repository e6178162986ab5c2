/*
 * The virtual timer: FreeRTOS's tick, and an alarm for who measures. One comparator serves both: a
 * guest of a hypervisor has no other that it may program without being trapped.
 */
#ifndef TIMER_H
#define TIMER_H

#include <stdint.h>

typedef void (*timer_alarm)(uint32_t lateness);

/* Ticks of the counter, and how many there are a second. */
uint64_t timer_now(void);
uint32_t timer_hz(void);

/* The alarm: every `period` ticks of the counter from now on. */
void timer_start_alarm(uint32_t period, timer_alarm handler);
void timer_stop_alarm(void);

/* The timer's interrupt. Returns of how many ticks FreeRTOS has to be told. */
unsigned timer_interrupt(void);

#endif
