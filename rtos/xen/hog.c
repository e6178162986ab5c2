/*
 * The program that computes without pause on a Linux beside a core on another CPU (`init.sh` starts
 * it, `scripts/xen-tools.sh` builds it; no libc).
 *
 * An emulator that counts instructions runs the board's CPUs in turns, and goes on with the next
 * one when a program says `yield` (which does nothing on the processors that are emulated) or
 * sleeps. Without it the core's CPU would hardly have a turn; and turns are short, so that what is
 * late by them does not show.
 */

enum {
    /* Of two instructions each: a turn of half a microsecond where one takes 8 ns. */
    ROUNDS = 30
};

void _start(void);

void _start(void)
{
    for (;;) {
        unsigned long rounds = ROUNDS;

        __asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds)::"cc");
        __asm volatile("yield");
    }
}
