/*
 * Clock, pin, interrupts for measuring: the two APB timers (Arm DDI 0479, chapter 4.3), the third
 * UART, and a line of the NVIC that no device uses. Handlers are entered through start.c's vectors.
 */
#include "measure.h"

#include "board.h"
#include "interrupts.h"
#include "uart.h"

struct apb_timer {
    volatile uint32_t control;
    volatile uint32_t value;
    volatile uint32_t reload;
    volatile uint32_t interrupt;
};

#define CLOCK ((struct apb_timer *)0x40000000u)
#define ALARM ((struct apb_timer *)0x40001000u)

#define CONTROL_ENABLE 1u
#define CONTROL_INTERRUPT 8u

const struct measure_facts measure_facts = {
    .board = BOARD_NAME,
    .clock = "APB timer 0",
    .clock_hz = 25000000,
    .pin = "UART 2",
};

static measure_interrupt on_request;
static measure_alarm on_alarm;

void measure_start(void)
{
    CLOCK->reload = UINT32_MAX;
    CLOCK->value = UINT32_MAX;
    CLOCK->control = CONTROL_ENABLE;
    uart_start_pin();
}

uint32_t measure_clock(void)
{
    /* It counts down. */
    return ~CLOCK->value;
}

void measure_pin(char edge)
{
    uart_pin(edge);
}

void Request_Handler(void)
{
    on_request();
}

void measure_interrupt_open(measure_interrupt handler)
{
    on_request = handler;
    interrupt_enable(REQUEST_IRQ, MEASURED_PRIORITY);
}

void measure_interrupt_request(void)
{
    interrupt_pend(REQUEST_IRQ);
}

void measure_interrupt_mask(void)
{
    __asm volatile("cpsid i" ::: "memory");
}

void measure_interrupt_unmask(void)
{
    __asm volatile("cpsie i\n\tisb" ::: "memory");
}

void Alarm_Handler(void)
{
    /* It has begun anew by itself at the instant in question. */
    uint32_t lateness = ALARM->reload - ALARM->value;

    ALARM->interrupt = 1;
    on_alarm(lateness);
}

void measure_timer_start(uint32_t period, measure_alarm handler)
{
    on_alarm = handler;
    ALARM->reload = period - 1;
    ALARM->value = period - 1;
    interrupt_enable(ALARM_IRQ, MEASURED_PRIORITY);
    ALARM->control = CONTROL_ENABLE | CONTROL_INTERRUPT;
}

void measure_timer_stop(void)
{
    ALARM->control = 0;
    ALARM->interrupt = 1;
}
