/*
 * Clock, pin and interrupts for measuring: the virtual counter, the UART, an interrupt raised by
 * software, the virtual timer.
 */
#include "measure.h"

#include "FreeRTOS.h"

#include "gic.h"
#include "timer.h"
#include "uart.h"

/* The counter of QEMU's `virt`; measure_start() checks it. */
#define CLOCK_HZ 62500000

const struct measure_facts measure_facts = {
    .board = BOARD_NAME,
    .clock = "virtual counter",
    .clock_hz = CLOCK_HZ,
    .pin = "UART",
};

static measure_interrupt on_request;

void measure_start(void)
{
    configASSERT(timer_hz() == CLOCK_HZ);
}

uint32_t measure_clock(void)
{
    return (uint32_t)timer_now();
}

void measure_pin(char edge)
{
    uart_send(edge);
}

void request_interrupt(void)
{
    on_request();
}

void measure_interrupt_open(measure_interrupt handler)
{
    on_request = handler;
    gic_enable(REQUEST_INTERRUPT, MEASURED_PRIORITY);
}

void measure_interrupt_request(void)
{
    gic_request();
}

void measure_interrupt_mask(void)
{
    portDISABLE_INTERRUPTS();
}

void measure_interrupt_unmask(void)
{
    portENABLE_INTERRUPTS();
}

void measure_timer_start(uint32_t period, measure_alarm handler)
{
    timer_start_alarm(period, handler);
}

void measure_timer_stop(void)
{
    timer_stop_alarm();
}
