/* Driver of the PL011. An emulator needs no line settings. Called by start.c, measure.c, and tasks that ring or write. */
#include "uart.h"

#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "machine.h"
#ifndef MACHINE_ALONE
#include "semihosting.h"
#endif

#define DATA (*(volatile uint32_t *)(uintptr_t)(UART + 0x00))
#define FLAGS (*(volatile uint32_t *)(uintptr_t)(UART + 0x18))
#define INTERRUPT_MASK (*(volatile uint32_t *)(uintptr_t)(UART + 0x38))
#define INTERRUPT_CLEAR (*(volatile uint32_t *)(uintptr_t)(UART + 0x44))
#define FLAG_RECEIVE_EMPTY 0x10u
#define FLAG_TRANSMIT_FULL 0x20u
/* A byte has come; bytes have lain in the FIFO for a while. */
#define INTERRUPTS_OF_RECEIVER 0x50u

void uart_send(char byte)
{
    while ((FLAGS & FLAG_TRANSMIT_FULL) != 0) {
    }
    DATA = (uint8_t)byte;
}

#ifdef MACHINE_ALONE

void uart_open_doorbell(void)
{
}

void uart_doorbell_interrupt(void)
{
}

void board_ring(void)
{
    /* Nobody shares memory with this core. */
}

void board_write(const char *text, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i++) {
        uart_send(text[i]);
    }
}

#else

void uart_open_doorbell(void)
{
    INTERRUPT_MASK = INTERRUPTS_OF_RECEIVER;
    /* What came in before now is drained: every task looks before it sleeps. */
    uart_doorbell_interrupt();
}

void uart_doorbell_interrupt(void)
{
    /* Clear first: a byte that arrives while we drain raises the interrupt again, after draining it would be lost. */
    INTERRUPT_CLEAR = INTERRUPTS_OF_RECEIVER;
    while ((FLAGS & FLAG_RECEIVE_EMPTY) == 0) {
        (void)DATA;
    }
}

void board_ring(void)
{
    /* A byte still in the transmitter will be read after this moment: it serves for this ring, too. */
    if ((FLAGS & FLAG_TRANSMIT_FULL) == 0) {
        DATA = '!';
    }
}

void board_write(const char *text, size_t bytes)
{
    semihosting_write(text, bytes);
}

#endif
