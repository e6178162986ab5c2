/*
 * Driver of the console, the doorbell and the pin. Called by start.c, measure.c, by tasks that ring
 * or write, and by the doorbell's interrupt. Never waits for the host: what a full transmitter
 * cannot take is dropped.
 */
#include "uart.h"

#include <stdint.h>

#include "board.h"

/* CMSDK APB UART: Arm DDI 0479, chapter 4. */
struct uart {
    volatile uint32_t data;
    volatile uint32_t state;
    volatile uint32_t control;
    volatile uint32_t interrupt;
    volatile uint32_t baud_divider;
};

#define CONSOLE ((struct uart *)0x40004000u)
#define DOORBELL ((struct uart *)0x40005000u)
#define PIN ((struct uart *)0x40006000u)

#define STATE_TRANSMIT_FULL 1u
#define STATE_RECEIVE_FULL 2u
#define CONTROL_TRANSMIT 1u
#define CONTROL_RECEIVE 2u
#define CONTROL_RECEIVE_INTERRUPT 8u
#define INTERRUPT_RECEIVE 2u

/* The smallest the device allows; QEMU does not pace bytes by it. */
#define BAUD_DIVIDER 16u

/*
 * How often a full console transmitter is looked at before text is dropped: QEMU empties it in
 * between.
 */
#define CONSOLE_LOOKS 10000u

void uart_start(void)
{
    CONSOLE->baud_divider = BAUD_DIVIDER;
    CONSOLE->control = CONTROL_TRANSMIT;
    DOORBELL->baud_divider = BAUD_DIVIDER;
    DOORBELL->control = CONTROL_TRANSMIT | CONTROL_RECEIVE;
}

void uart_doorbell_interrupt(void)
{
    /*
     * Clear first: a byte that arrives while we drain raises the interrupt again, after draining it
     * would be lost.
     */
    DOORBELL->interrupt = INTERRUPT_RECEIVE;
    while ((DOORBELL->state & STATE_RECEIVE_FULL) != 0) {
        (void)DOORBELL->data;
    }
}

void uart_open_doorbell(void)
{
    DOORBELL->control = CONTROL_TRANSMIT | CONTROL_RECEIVE | CONTROL_RECEIVE_INTERRUPT;
    /*
     * What came in before now raised no interrupt, and while it lies there the device takes nothing
     * else. The ring itself is not needed: every task looks before it sleeps.
     */
    uart_doorbell_interrupt();
}

void uart_start_pin(void)
{
    PIN->baud_divider = BAUD_DIVIDER;
    PIN->control = CONTROL_TRANSMIT;
}

void uart_pin(char edge)
{
    PIN->data = (uint8_t)edge;
}

void board_ring(void)
{
    /*
     * A byte still in the transmitter will be read after this moment: it serves for this ring, too.
     */
    if ((DOORBELL->state & STATE_TRANSMIT_FULL) == 0) {
        DOORBELL->data = '!';
    }
}

void board_write(const char *text, size_t bytes)
{
    uint32_t looks;
    size_t i;

    for (i = 0; i < bytes; i++) {
        for (looks = 0; (CONSOLE->state & STATE_TRANSMIT_FULL) != 0; looks++) {
            if (looks == CONSOLE_LOOKS) {
                return;
            }
        }
        CONSOLE->data = (uint8_t)text[i];
    }
}
