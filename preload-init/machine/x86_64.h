/* 64-bit x86. See machine.h. Never included by itself. */
#ifndef MACHINE_X86_64_H
#define MACHINE_X86_64_H

/* From arch/x86/entry/syscalls/syscall_64.tbl. */
enum {
    CALL_WRITE = 1,
    CALL_CLOSE = 3,
    CALL_FSTAT = 5,
    CALL_MMAP = 9,
    CALL_MUNMAP = 11,
    CALL_RT_SIGPROCMASK = 14,
    CALL_PREAD = 17,
    CALL_MINCORE = 27,
    CALL_NANOSLEEP = 35,
    CALL_GETPID = 39,
    CALL_EXECVE = 59,
    CALL_SYSINFO = 99,
    CALL_RT_SIGTIMEDWAIT = 128,
    CALL_FSTATFS = 138,
    CALL_READAHEAD = 187,
    CALL_FADVISE = 221,
    CALL_CLOCK_GETTIME = 228,
    CALL_EXIT_GROUP = 231,
    CALL_OPENAT = 257,
    CALL_PPOLL = 271,
    CALL_STATX = 332,
    CALL_OPENAT2 = 437
};

/* From asm-generic/fcntl.h. */
enum {
    MACHINE_O_DIRECTORY = 0200000,
    MACHINE_O_LARGEFILE = 0
};

/* struct stat of this machine. */
enum {
    STAT_BYTES = 144,
    STAT_INODE = 8,
    STAT_MODE = 24,
    STAT_SIZE = 48,
    STAT_MTIME = 88
};

static inline long machine_call(long number, const long values[6])
{
    register long fourth __asm__("r10") = values[3];
    register long fifth __asm__("r8") = values[4];
    register long sixth __asm__("r9") = values[5];
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(fourth),
                       "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

/* The kernel starts a program with the stack pointer at argc, and nothing else of use. */
#define MACHINE_START                                                                              \
    "xor %ebp, %ebp\n"                                                                             \
    "mov %rsp, %rdi\n"                                                                             \
    "and $-16, %rsp\n"                                                                             \
    "call hythe_preload_begin\n"                                                                   \
    "hlt\n"

#endif
