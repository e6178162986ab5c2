/*
 * What the kernel counts the run time of tasks with: the first APB timer (Arm DDI 0479, chapter
 * 4.3), which starts with the first look. It counts down and wraps in less than three minutes; the
 * kernel looks at each switch of tasks, which is more often. Programs that measure use it, too
 * (measure.c), and count no run time.
 */
#include <stdint.h>

#include "board.h"

#define TIMER_CONTROL (*(volatile uint32_t *)0x40000000u)
#define TIMER_VALUE (*(volatile uint32_t *)0x40000004u)
#define TIMER_RELOAD (*(volatile uint32_t *)0x40000008u)
#define CONTROL_ENABLE 1u

const uint32_t board_clock_hz = 25000000;

uint64_t board_clock(void)
{
    static uint64_t wraps;
    static uint32_t seen;
    uint32_t now;

    if ((TIMER_CONTROL & CONTROL_ENABLE) == 0) {
        TIMER_RELOAD = UINT32_MAX;
        TIMER_VALUE = UINT32_MAX;
        TIMER_CONTROL = CONTROL_ENABLE;
    }
    now = ~TIMER_VALUE;
    if (now < seen) {
        wraps++;
    }
    seen = now;
    return wraps << 32 | now;
}
