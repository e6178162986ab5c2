/*
 * Segments that a core sees: each call, with the system's errors, over fork and death. Makes what
 * it needs, and removes it. "all as the system's" if everything is as shmget(2) and its family say.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef SYSTEM_V_NAMES
/* For the library that takes the place of the system's functions. */
#include <dlfcn.h>
#include <sys/shm.h>
#define HYTHE_SHM_DUAL 0x10000
#define HYTHE_SHM_ON_CORE 0x20000
#define hythe_shmget shmget
#define hythe_shmat shmat
#define hythe_shmdt shmdt
#define hythe_shmctl shmctl
#define hythe_last_error() "HYTHE_SHM_LOG=1 tells more"

/* A program learns by these whether the library is there. */
static int hythe_shm_is_dual(int shmid)
{
    int (*found)(int);

    *(void **)&found = dlsym(RTLD_DEFAULT, "hythe_shm_is_dual");
    return found == NULL ? -2 : found(shmid);
}

static int hythe_shm_check(const void *address, size_t bytes)
{
    int (*found)(const void *, size_t);

    *(void **)&found = dlsym(RTLD_DEFAULT, "hythe_shm_check");
    return found == NULL ? -2 : found(address, bytes);
}
#else
#include "hythe.h"
#endif

#define BYTES 5000u
#define REFUSED ((void *)-1)

static void must(int good, const char *what, int line)
{
    if (!good) {
        fprintf(stderr, "line %d: %s; errno %d, %s\n", line, what, errno, hythe_last_error());
        exit(1);
    }
}

#define MUST(condition) must(condition, #condition, __LINE__)
#define MUST_FAIL(call, number) MUST((call) && errno == (number))

static unsigned long attached(int id)
{
    struct shmid_ds status;

    MUST(hythe_shmctl(id, IPC_STAT, &status) == 0);
    return (unsigned long)status.shm_nattch;
}

/* Attachments of children count until they end, by exit, by a signal, and by another program. */
static void fork_and_count(int id, char *bytes)
{
    int how;

    for (how = 0; how < 3; how++) {
        int status;
        pid_t child = fork();

        MUST(child >= 0);
        if (child == 0) {
            if (attached(id) != 2 || hythe_shmdt(bytes + 1) != -1) {
                _exit(1);
            }
            bytes[how] = (char)('a' + how);
            if (how == 0) {
                _exit(hythe_shmdt(bytes) != 0 || attached(id) != 1);
            } else if (how == 1) {
                (void)raise(SIGKILL);
            }
            execlp("true", "true", (char *)NULL);
            _exit(1);
        }
        MUST(waitpid(child, &status, 0) == child);
        MUST(how == 1 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        MUST(attached(id) == 1 && bytes[how] == 'a' + how);
    }
}

/* A core on a busy machine may be silent for longer than it is waited for. */
static int make(key_t key, int flags)
{
    int tries = 12;
    int id;

    do {
        id = hythe_shmget(key, BYTES, flags);
    } while (id == -1 && errno == ENOSPC && --tries > 0);
    return id;
}

/* `flag`: one of ours. */
static void use_dual(key_t key, int flag)
{
    int id = make(key, flag | IPC_CREAT | IPC_EXCL | 0600);
    struct shmid_ds status;
    char *bytes;
    char *other;

    MUST(id >= 0);
    if (hythe_shm_is_dual(id) != 1) {
        /* The kernel has made a plain one, which nothing else would remove. */
        (void)hythe_shmctl(id, IPC_RMID, NULL);
        MUST(!"a core sees it");
    }
    MUST_FAIL(hythe_shmget(key, BYTES, flag | IPC_CREAT | IPC_EXCL) == -1, EEXIST);
    MUST_FAIL(hythe_shmget(key, BYTES + 1, flag) == -1, EINVAL);
    MUST(hythe_shmget(key, 0, flag) == id);
    bytes = hythe_shmat(id, NULL, 0);
    MUST(bytes != REFUSED && bytes[0] == 0 && bytes[BYTES - 1] == 0);
    MUST(hythe_shm_check(bytes, BYTES) == 0);
    MUST_FAIL(hythe_shm_check(bytes, BYTES + 1) == -1, EFAULT);
    MUST_FAIL(hythe_shm_check(bytes - 1, 1) == -1, EFAULT);
    MUST_FAIL(hythe_shm_check(bytes + 1, (size_t)-1) == -1, EFAULT);
    MUST_FAIL(hythe_shmat(id, bytes + 1, 0) == REFUSED, EINVAL);
    MUST_FAIL(hythe_shmat(id, bytes, 0) == REFUSED, EINVAL);
    MUST_FAIL(hythe_shmat(id, bytes, SHM_REMAP) == REFUSED, EINVAL);
    fork_and_count(id, bytes);
    other = hythe_shmat(id, NULL, SHM_RDONLY);
    MUST(other != REFUSED && other != bytes && memcmp(other, "abc", 3) == 0);
    MUST(hythe_shmdt(other) == 0);
    MUST_FAIL(hythe_shmdt(other) == -1, EINVAL);
    MUST(hythe_shmat(id, other + 1, SHM_RND) == other && hythe_shmdt(other) == 0);
    MUST(hythe_shmctl(id, IPC_STAT, &status) == 0);
    status.shm_perm.mode = 0640;
    MUST(hythe_shmctl(id, IPC_SET, &status) == 0);
    MUST(hythe_shmctl(id, IPC_STAT, &status) == 0);
    MUST(status.shm_segsz == BYTES && (status.shm_perm.mode & 0777) == 0640);
    MUST(hythe_shmctl(id, IPC_RMID, NULL) == 0);
    MUST_FAIL(hythe_shmget(key, 0, flag) == -1, ENOENT);
    MUST(bytes[2] == 'c' && hythe_shmdt(bytes) == 0);
    MUST_FAIL(hythe_shmat(id, NULL, 0) == REFUSED, EINVAL);
    MUST_FAIL(hythe_shm_is_dual(id) == -1, EINVAL);
}

/* Without the flag all is as without this library. */
static void use_plain(key_t key)
{
    int id = hythe_shmget(key, BYTES, IPC_CREAT | 0600);
    char *bytes = hythe_shmat(id, NULL, 0);

    MUST(id >= 0 && bytes != REFUSED && hythe_shm_is_dual(id) == 0);
    MUST_FAIL(hythe_shmget(key, BYTES, HYTHE_SHM_DUAL | IPC_CREAT | 0600) == -1, EEXIST);
    MUST_FAIL(hythe_shm_check(bytes, 1) == -1, EFAULT);
    MUST(hythe_shmdt(bytes) == 0 && hythe_shmctl(id, IPC_RMID, NULL) == 0);
}

int main(void)
{
    key_t key = (key_t)(0x20000000 | (getpid() & 0xffffff));

    use_dual(key, HYTHE_SHM_DUAL);
    use_dual(key, HYTHE_SHM_ON_CORE);
    use_dual(key, HYTHE_SHM_DUAL | HYTHE_SHM_ON_CORE);
    use_plain(key);
    MUST_FAIL(hythe_shmget(IPC_PRIVATE, 1u << 30, HYTHE_SHM_DUAL | IPC_CREAT) == -1, EINVAL);
    puts("all as the system's");
    return 0;
}
