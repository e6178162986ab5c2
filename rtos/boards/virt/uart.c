/* Driver of the PL011, as far as sending goes. An emulator needs no line settings. */
#include "uart.h"

#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "machine.h"

#define DATA (*(volatile uint32_t *)(uintptr_t)(UART + 0x00))
#define FLAGS (*(volatile uint32_t *)(uintptr_t)(UART + 0x18))
#define FLAG_TRANSMIT_FULL 0x20u

void uart_send(char byte)
{
    while ((FLAGS & FLAG_TRANSMIT_FULL) != 0) {
    }
    DATA = (uint8_t)byte;
}

void board_write(const char *text, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i++) {
        uart_send(text[i]);
    }
}
