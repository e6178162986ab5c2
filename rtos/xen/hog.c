/*
 * The program that computes without pause on the Linux beside a core (`init.sh` starts it, `scripts/xen-tools.sh` builds it; no libc).
 *
 * An emulator that counts instructions runs the board's CPUs in turns, and gives the turn on when the program that has it says `yield`
 * (which does nothing on the processors that are emulated), or sleeps: without it the core's CPU would have no turn. The system call tells
 * `latency::xen::exits` that this CPU had one.
 */

enum {
    /* Of two instructions each: a turn of 0.1 ms where one takes 8 ns. */
    ROUNDS = 6250,
    GETPID = 172
};

void _start(void);

void _start(void)
{
    for (;;) {
        unsigned long rounds = ROUNDS;
        register long result __asm("x0") = 0;
        register long call __asm("x8") = GETPID;

        __asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds)::"cc");
        __asm volatile("svc #0" : "+r"(result) : "r"(call) : "memory");
        __asm volatile("yield");
    }
}
