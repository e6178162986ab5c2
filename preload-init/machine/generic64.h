/*
 * What 64-bit machines share that joined Linux late: one table of system calls, one struct stat.
 * From asm-generic/unistd.h. Included by their headers. Never included by itself.
 */
#ifndef MACHINE_GENERIC64_H
#define MACHINE_GENERIC64_H

enum {
    CALL_FSTATFS = 44,
    CALL_OPENAT = 56,
    CALL_CLOSE = 57,
    CALL_WRITE = 64,
    CALL_PREAD = 67,
    CALL_PPOLL = 73,
    CALL_FSTAT = 80,
    CALL_EXIT_GROUP = 94,
    CALL_NANOSLEEP = 101,
    CALL_CLOCK_GETTIME = 113,
    CALL_RT_SIGPROCMASK = 135,
    CALL_RT_SIGTIMEDWAIT = 137,
    CALL_GETPID = 172,
    CALL_SYSINFO = 179,
    CALL_READAHEAD = 213,
    CALL_MUNMAP = 215,
    CALL_EXECVE = 221,
    CALL_MMAP = 222,
    CALL_FADVISE = 223,
    CALL_MINCORE = 232,
    CALL_STATX = 291,
    CALL_OPENAT2 = 437
};

enum {
    STAT_BYTES = 128,
    STAT_INODE = 8,
    STAT_MODE = 16,
    STAT_SIZE = 48,
    STAT_MTIME = 88
};

#endif
