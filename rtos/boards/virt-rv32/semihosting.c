/* The call and the instructions that make it on RISC-V. Called by start.c. */
#include "semihosting.h"

#include <stdint.h>

/* The argument is where the character lies. */
#define SYS_WRITEC 0x03

static void call(uintptr_t operation, uintptr_t argument)
{
    register uintptr_t a0 __asm("a0") = operation;
    register uintptr_t a1 __asm("a1") = argument;

    /* Known by the three instructions together, uncompressed and in one page. */
    __asm volatile(".option push\n\t"
                   ".option norvc\n\t"
                   ".balign 16\n\t"
                   "slli x0, x0, 0x1f\n\t"
                   "ebreak\n\t"
                   "srai x0, x0, 7\n\t"
                   ".option pop"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
}

void semihosting_write(const char *text, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i++) {
        call(SYS_WRITEC, (uintptr_t)&text[i]);
    }
}
