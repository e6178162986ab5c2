/* 64-bit Arm. See machine.h. Never included by itself. */
#ifndef MACHINE_AARCH64_H
#define MACHINE_AARCH64_H

#include "generic64.h"

/* From arch/arm64/include/uapi/asm/fcntl.h. */
enum {
    MACHINE_O_DIRECTORY = 040000,
    MACHINE_O_LARGEFILE = 0
};

static inline long machine_call(long number, const long values[6])
{
    register long call __asm__("x8") = number;
    register long first __asm__("x0") = values[0];
    register long second __asm__("x1") = values[1];
    register long third __asm__("x2") = values[2];
    register long fourth __asm__("x3") = values[3];
    register long fifth __asm__("x4") = values[4];
    register long sixth __asm__("x5") = values[5];

    __asm__ volatile("svc #0"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return first;
}

#define MACHINE_START                                                                              \
    "mov x29, #0\n"                                                                                \
    "mov x30, #0\n"                                                                                \
    "mov x0, sp\n"                                                                                 \
    "bl hythe_preload_begin\n"                                                                     \
    "brk #0\n"

#endif
