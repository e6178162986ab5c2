/*
 * Driver of the 16550 on QEMU's `virt` machine. An emulator needs no line settings. Never waits for
 * the host.
 */
#include "uart.h"

#include <stdint.h>

#include "board.h"

#define REGISTER(offset) (*(volatile uint8_t *)(uintptr_t)(0x10000000u + (offset)))
#define DATA REGISTER(0)
#define INTERRUPT_ENABLE REGISTER(1)
#define LINE_STATUS REGISTER(5)

#define ENABLE_RECEIVE 0x01u
#define STATUS_RECEIVE_FULL 0x01u
#define STATUS_TRANSMIT_EMPTY 0x20u

void uart_doorbell_interrupt(void)
{
    /*
     * The interrupt lasts as long as there is a byte, so none can be lost between looking and
     * clearing.
     */
    while ((LINE_STATUS & STATUS_RECEIVE_FULL) != 0) {
        (void)DATA;
    }
}

void uart_open_doorbell(void)
{
    /* What came in before now interrupts at once. */
    INTERRUPT_ENABLE = ENABLE_RECEIVE;
}

void board_ring(void)
{
    /*
     * A byte still in the transmitter will be read after this moment: it serves for this ring, too.
     */
    if ((LINE_STATUS & STATUS_TRANSMIT_EMPTY) != 0) {
        DATA = '!';
    }
}
