/*
 * Segments: bytes by address that this core and processes of Linux see (spec/segments.md), found by
 * key or id as in System V shared memory. Each side has its own address for the same byte. The
 * agent acts for the core: what it may, as a user of Linux, the core may.
 *
 * As shmget(2), shmop(2) and shmctl(2), with these differences: every function takes what the
 * program has started (hythe_services.h) and a time-out, and returns a negative error number; what
 * is attached is a struct of the caller's, and there is no address to choose. All segments of a
 * core are seen by Linux, too, so the flags HYTHE_SHM_DUAL and HYTHE_SHM_ON_CORE change nothing
 * here. A program that makes segments for Linux says so with `make_segment` (hythe_task.h).
 *
 * Without an MPU, a segment attached with HYTHE_SHM_RDONLY can be written all the same: that flag
 * is a promise of the program, which hythe_shm_check() helps to keep. A program whose caches are
 * not coherent with Linux's cleans what it wrote and invalidates what it reads, by its port's
 * functions.
 *
 * What a core has attached stays its own until it detaches or ends, also when the agent dies.
 */
#ifndef HYTHE_SHM_H
#define HYTHE_SHM_H

#include "hythe_services.h"

/* Bits of `flags`, and commands, with Linux's values. The lowest nine bits are permissions. */
#define HYTHE_IPC_PRIVATE 0
#define HYTHE_IPC_CREAT 0x200u
#define HYTHE_IPC_EXCL 0x400u
#define HYTHE_SHM_RDONLY 0x1000u
#define HYTHE_SHM_DUAL 0x10000u
#define HYTHE_SHM_ON_CORE 0x20000u

enum hythe_shm_command {
    HYTHE_IPC_RMID = 0,
    HYTHE_IPC_SET = 1,
    HYTHE_IPC_STAT = 2
};

/* In `mode`: it was removed, and goes with its last attachment. */
#define HYTHE_SHM_DEST 0x200u

/* What is known of a segment; 88 bytes as they come from Linux. Times in seconds since 1970. */
struct hythe_shmid {
    int32_t key;
    uint32_t uid;
    uint32_t gid;
    uint32_t cuid;
    uint32_t cgid;
    uint32_t mode;
    /* 0: Linux; 1: this core. */
    uint32_t made_on;
    /* Its first page in the area. */
    uint32_t page;
    uint64_t size;
    int64_t atime;
    int64_t dtime;
    int64_t ctime;
    /* How many times it is attached, and how many of those are this core's. */
    uint32_t nattch;
    uint32_t nattch_core;
    /* Processes of Linux. */
    uint32_t cpid;
    uint32_t lpid;
    /* The order in which segments were made. */
    uint64_t order;
};

/* An attached segment. The program reads it; a copy of it is no attachment. */
struct hythe_shm {
    /* Its first byte; NULL: it is not attached. */
    uint8_t *address;
    /* Its size. */
    uint32_t bytes;
    int32_t id;
    /* HYTHE_SHM_RDONLY or 0. */
    uint32_t flags;
    /* Private. NULL: there is nothing to detach. */
    struct hythe_services *services;
};

/*
 * The id of the segment with this key; with HYTHE_IPC_CREAT it is made if there is none, and with
 * HYTHE_IPC_EXCL refused if there is one. A new one is zeroed and has up to the end of its last
 * page to itself.
 *
 * -HYTHE_EEXIST, also if the key is one of a segment that no core sees; -HYTHE_ENOENT;
 * -HYTHE_EACCES; -HYTHE_EINVAL: a size of 0 or more than the area's, or than that of the segment
 * that there is, or an unknown flag; -HYTHE_ENOSPC: the agent's log says what is free; errors of
 * the call.
 */
int hythe_shmget(struct hythe_services *services, int32_t key, uint32_t size, uint32_t flags,
                 uint32_t timeout_ms);

/*
 * Attaches a segment: `shm` says where, until hythe_shmdt(). `flags`: HYTHE_SHM_RDONLY or 0.
 *
 * 0; -HYTHE_EINVAL: there is none of that id, or an unknown flag; -HYTHE_EIDRM; -HYTHE_EACCES;
 * -HYTHE_ENOMEM: as many are attached as may be; -HYTHE_EPROTO: the agent named a place outside of
 * this core's area. After -HYTHE_ETIMEDOUT and -HYTHE_ECONNRESET call hythe_shmdt(): the agent may
 * count an attachment that was made too late.
 */
int hythe_shmat(struct hythe_services *services, int32_t id, uint32_t flags, struct hythe_shm *shm,
                uint32_t timeout_ms);

/*
 * Gives an attachment up. No task may use its bytes any more, whatever the result.
 *
 * 0; -HYTHE_EINVAL: it is not attached. After an error of the call it may still be counted: call
 * again.
 */
int hythe_shmdt(struct hythe_shm *shm, uint32_t timeout_ms);

/*
 * HYTHE_IPC_STAT fills `status`; HYTHE_IPC_SET takes uid, gid and the nine bits of mode from it;
 * HYTHE_IPC_RMID removes the segment, which goes with its last attachment, and takes no status.
 *
 * 0; -HYTHE_EINVAL: there is none of that id, or an unknown command; -HYTHE_EIDRM; -HYTHE_EACCES:
 * it may not be read; -HYTHE_EPERM: it is another user's.
 */
int hythe_shmctl(struct hythe_services *services, int32_t id, int command,
                 struct hythe_shmid *status, uint32_t timeout_ms);

/*
 * Are all `bytes` from `at` on inside the attached segment? With HYTHE_SHM_RDONLY in `flags` for
 * reading, else for writing. Never blocks; from anywhere.
 *
 * 0; -HYTHE_EFAULT: not all of them; -HYTHE_EACCES: it was attached for reading only.
 */
int hythe_shm_check(const struct hythe_shm *shm, const volatile void *at, size_t bytes,
                    uint32_t flags);

#endif
