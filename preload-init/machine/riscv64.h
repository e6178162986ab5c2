/* 64-bit RISC-V. See machine.h. Never included by itself. */
#ifndef MACHINE_RISCV64_H
#define MACHINE_RISCV64_H

#include "generic64.h"

/* From asm-generic/fcntl.h. */
enum {
    MACHINE_O_DIRECTORY = 0200000,
    MACHINE_O_LARGEFILE = 0
};

static inline long machine_call(long number, const long values[6])
{
    register long call __asm__("a7") = number;
    register long first __asm__("a0") = values[0];
    register long second __asm__("a1") = values[1];
    register long third __asm__("a2") = values[2];
    register long fourth __asm__("a3") = values[3];
    register long fifth __asm__("a4") = values[4];
    register long sixth __asm__("a5") = values[5];

    __asm__ volatile("ecall"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return first;
}

/* A linker may have shortened addresses to distances from gp: it is set before anything else. */
#define MACHINE_START                                                                              \
    ".option push\n"                                                                               \
    ".option norelax\n"                                                                            \
    "lla gp, __global_pointer$\n"                                                                  \
    ".option pop\n"                                                                                \
    "mv a0, sp\n"                                                                                  \
    "andi sp, sp, -16\n"                                                                           \
    "call hythe_preload_begin\n"                                                                   \
    "ebreak\n"

#endif
