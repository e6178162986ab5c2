/* 32-bit Arm, EABI, little endian, Arm or Thumb code. See machine.h. Never included by itself. */
#ifndef MACHINE_ARM_H
#define MACHINE_ARM_H

#if defined(__ARMEB__)
#error "preload-init for big-endian Arm: its pairs of registers are swapped; nobody has tried it"
#endif

/* 64-bit values travel in two registers, the first of them with an even number. */
#define MACHINE_PAIRS 1

/* From arch/arm/tools/syscall.tbl. */
enum {
    CALL_WRITE = 4,
    CALL_CLOSE = 6,
    CALL_EXECVE = 11,
    CALL_GETPID = 20,
    CALL_MUNMAP = 91,
    CALL_SYSINFO = 116,
    CALL_NANOSLEEP = 162,
    CALL_RT_SIGPROCMASK = 175,
    CALL_RT_SIGTIMEDWAIT = 177,
    CALL_PREAD = 180,
    CALL_MMAP = 192,  /* mmap2: its offset counts pages */
    CALL_FSTAT = 197, /* fstat64 */
    CALL_MINCORE = 219,
    CALL_READAHEAD = 225,
    CALL_EXIT_GROUP = 248,
    CALL_CLOCK_GETTIME = 263,
    CALL_FSTATFS = 267, /* fstatfs64 */
    CALL_FADVISE = 270, /* arm_fadvise64_64: the advice stands second */
    CALL_OPENAT = 322,
    CALL_PPOLL = 336,
    CALL_STATX = 397,
    CALL_OPENAT2 = 437
};

/* From arch/arm/include/uapi/asm/fcntl.h. */
enum {
    MACHINE_O_DIRECTORY = 040000,
    MACHINE_O_LARGEFILE = 0400000
};

/* struct stat64 of this machine. Its times are two words of 32 bits. */
enum {
    STAT_BYTES = 104,
    STAT_INODE = 96,
    STAT_MODE = 16,
    STAT_SIZE = 48,
    STAT_MTIME = 80,
    STATFS_BYTES = 84
};

static inline long machine_call(long number, const long values[6])
{
    register long first __asm__("r0") = values[0];
    register long second __asm__("r1") = values[1];
    register long third __asm__("r2") = values[2];
    register long fourth __asm__("r3") = values[3];
    register long fifth __asm__("r4") = values[4];
    register long sixth __asm__("r5") = values[5];

    /*
     * The number travels in r7, which Thumb code may need for its frames: so it is kept aside here.
     */
    __asm__ volatile("mov r6, r7\n"
                     "mov r7, %[number]\n"
                     "svc #0\n"
                     "mov r7, r6\n"
                     : "+r"(first)
                     : [number] "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth),
                       "r"(sixth)
                     : "r6", "cc", "memory");
    return first;
}

#if defined(__thumb__)
#define MACHINE_START_MODE ".thumb_func\n"
#else
#define MACHINE_START_MODE ""
#endif

/* Without the registers above 7, so that it is also Thumb-1. */
#define MACHINE_START                                                                              \
    "mov r0, sp\n"                                                                                 \
    "mov r1, #7\n"                                                                                 \
    "mov r2, r0\n"                                                                                 \
    "bic r2, r2, r1\n"                                                                             \
    "mov sp, r2\n"                                                                                 \
    "bl hythe_preload_begin\n"                                                                     \
    "1: b 1b\n"

#endif
