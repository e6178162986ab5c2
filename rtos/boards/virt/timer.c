/*
 * Which of the two is due, and when the next is. Called with interrupts masked, or before they
 * begin.
 */
#include "timer.h"

#include "FreeRTOS.h"

#include "gic.h"

static uint64_t next_tick;
static uint64_t tick_period;
static volatile uint64_t next_alarm = UINT64_MAX;
static uint32_t alarm_period;
static timer_alarm on_alarm;

uint64_t timer_now(void)
{
    uint64_t now;

    __asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now)::"memory");
    return now;
}

uint32_t timer_hz(void)
{
    uint64_t hz;

    __asm volatile("mrs %0, cntfrq_el0" : "=r"(hz));
    return (uint32_t)hz;
}

static void program(void)
{
    uint64_t next = next_alarm < next_tick ? next_alarm : next_tick;
    uint64_t enable = 1;

    __asm volatile("msr cntv_cval_el0, %0" ::"r"(next));
    /* Each time: Xen masks the timer of a guest when it has fired. */
    __asm volatile("msr cntv_ctl_el0, %0\n\tisb" ::"r"(enable));
}

void timer_start_tick(void)
{
    tick_period = timer_hz() / configTICK_RATE_HZ;
    next_tick = timer_now() + tick_period;
    program();
    gic_enable(TIMER_INTERRUPT, TICK_PRIORITY);
}

void timer_clear(void)
{
    /* Programming the next instant has cleared it (timer_interrupt). */
}

unsigned timer_interrupt(void)
{
    uint64_t now = timer_now();
    unsigned ticks = 0;

    if (now >= next_alarm) {
        uint32_t lateness = (uint32_t)(now - next_alarm);
        /* Alarms that were missed are not made up for: the lateness of this one tells of them. */
        next_alarm += alarm_period * (1 + lateness / alarm_period);
        on_alarm(lateness);
    }
    /* Missed ones count, too: time-outs stay as long as they were meant to be. */
    while (now >= next_tick) {
        next_tick += tick_period;
        ticks++;
    }
    program();
    return ticks;
}

void timer_start_alarm(uint32_t period, timer_alarm handler)
{
    portDISABLE_INTERRUPTS();
    on_alarm = handler;
    alarm_period = period;
    next_alarm = timer_now() + period;
    program();
    portENABLE_INTERRUPTS();
}

void timer_stop_alarm(void)
{
    portDISABLE_INTERRUPTS();
    next_alarm = UINT64_MAX;
    program();
    portENABLE_INTERRUPTS();
}
