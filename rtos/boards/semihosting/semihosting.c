/* The calls and the instructions that make them. Called by boards' start-up code and consoles. */
#include "semihosting.h"

#include <stdint.h>

/* The argument is where the character lies. */
#define SYS_WRITEC 0x03

#if defined __aarch64__
static void call(uintptr_t operation, uintptr_t argument)
{
    register uintptr_t x0 __asm("x0") = operation;
    register uintptr_t x1 __asm("x1") = argument;

    __asm volatile("hlt #0xf000" : "+r"(x0) : "r"(x1) : "memory");
}
#elif defined __riscv
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
#else
#error "there is no semihosting call for this instruction set here"
#endif

void semihosting_write(const char *text, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i++) {
        call(SYS_WRITEC, (uintptr_t)&text[i]);
    }
}
