/*
 * The machine this is built for: numbers of system calls, how to make one, how a program begins,
 * how old kernels lay out what fstat() tells. Included by system.c and start.c alone.
 *
 * A new machine is one more header beside this one. Never names a machine outside of this folder.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

#if defined(__x86_64__)
#include "x86_64.h"
#elif defined(__aarch64__)
#include "aarch64.h"
#elif defined(__arm__) && defined(__ARM_EABI__)
#include "arm.h"
#elif defined(__riscv) && __riscv_xlen == 64
#include "riscv64.h"
#else
#error "preload-init does not know this machine: give it a header in preload-init/machine"
#endif

/*
 * For tests alone: the newer calls get a number that no kernel has, also where an emulator would
 * play them.
 */
#if defined(MACHINE_OLD_KERNEL)
#define CALL_STATX 65535
#define CALL_OPENAT2 65535
#define CALL_READAHEAD 65535
#define CALL_MINCORE 65535
#endif

#endif
