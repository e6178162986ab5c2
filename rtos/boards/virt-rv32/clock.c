/* What the kernel counts the run time of tasks with: the time of the hart (CLINT, 10 MHz). */
#include <stdint.h>

#include "board.h"

#define TIME_LOW (*(volatile uint32_t *)0x0200bff8u)
#define TIME_HIGH (*(volatile uint32_t *)0x0200bffcu)

const uint32_t board_clock_hz = 10000000;

uint64_t board_clock(void)
{
    uint32_t high;
    uint32_t low;

    do {
        high = TIME_HIGH;
        low = TIME_LOW;
    } while (high != TIME_HIGH);
    return (uint64_t)high << 32 | low;
}
