/*
 * Segments for a core (spec/segments.md): calls of the agent, and what it says checked against the
 * area that the board has. Never touches a segment's bytes, never allocates.
 */
#include "hythe_shm.h"

#include "services.h"

/* As spec/services.md has it. */
typedef char hythe_shmid_has_88_bytes[sizeof(struct hythe_shmid) == 88 ? 1 : -1];

/* Flags that are for Linux's side. */
#define DUAL (HYTHE_SHM_DUAL | HYTHE_SHM_ON_CORE)

int hythe_shmget(struct hythe_services *services, int32_t key, uint32_t size, uint32_t flags,
                 uint32_t timeout_ms)
{
    struct hythe_services_call call = {0};
    int result;

    call.words[HYTHE_CALL_ARGUMENT + 1] = size;
    call.words[HYTHE_CALL_ARGUMENT + 2] = flags & ~DUAL;
    result = hythe_services_call(services, &call, HYTHE_METHOD_SHM_GET, (uint32_t)key, timeout_ms);
    if (result < 0) {
        return result;
    }
    result = (int32_t)call.words[HYTHE_CALL_VALUE];
    /* An id that looks like an error would be taken for one. */
    return result < 0 ? hythe_services_lie(services) : result;
}

int hythe_shmat(struct hythe_services *services, int32_t id, uint32_t flags, struct hythe_shm *shm,
                uint32_t timeout_ms)
{
    struct hythe_services_call call = {0};
    size_t pages = services->segments_bytes / HYTHE_SEGMENT_PAGE;
    const uint32_t *values = call.words + HYTHE_CALL_VALUE;
    int result;

    shm->services = NULL;
    shm->address = NULL;
    shm->bytes = 0;
    shm->id = id;
    shm->flags = flags;
    call.words[HYTHE_CALL_ARGUMENT + 1] = flags;
    result =
        hythe_services_call(services, &call, HYTHE_METHOD_SHM_ATTACH, (uint32_t)id, timeout_ms);
    if (result == -HYTHE_ETIMEDOUT || result == -HYTHE_ECONNRESET) {
        shm->services = services;
    }
    if (result < 0) {
        return result;
    }
    shm->services = services;
    if (values[0] >= pages || values[1] == 0 || values[2] != 0 ||
        (values[1] - 1) / HYTHE_SEGMENT_PAGE >= pages - values[0]) {
        (void)hythe_shmdt(shm, timeout_ms);
        return hythe_services_lie(services);
    }
    shm->address = services->segments + (size_t)values[0] * HYTHE_SEGMENT_PAGE;
    shm->bytes = values[1];
    return 0;
}

int hythe_shmdt(struct hythe_shm *shm, uint32_t timeout_ms)
{
    struct hythe_services_call call = {0};
    int result;

    if (shm->services == NULL) {
        return -HYTHE_EINVAL;
    }
    shm->address = NULL;
    shm->bytes = 0;
    result = hythe_services_call(shm->services, &call, HYTHE_METHOD_SHM_DETACH, (uint32_t)shm->id,
                                 timeout_ms);
    if (result >= 0 || result == -HYTHE_EINVAL) {
        shm->services = NULL;
    }
    return result < 0 ? result : 0;
}

int hythe_shmctl(struct hythe_services *services, int32_t id, int command,
                 struct hythe_shmid *status, uint32_t timeout_ms)
{
    struct hythe_services_call call = {0};
    uint32_t method = HYTHE_METHOD_SHM_REMOVE;
    int result;

    if (command == HYTHE_IPC_STAT) {
        method = HYTHE_METHOD_SHM_STAT;
        call.result = status;
        call.result_bytes = sizeof *status;
    } else if (command == HYTHE_IPC_SET) {
        method = HYTHE_METHOD_SHM_SET;
        call.words[HYTHE_CALL_FLAGS] = status->mode;
        call.words[HYTHE_CALL_ARGUMENT + 1] = status->uid;
        call.words[HYTHE_CALL_ARGUMENT + 2] = status->gid;
    } else if (command != HYTHE_IPC_RMID) {
        return -HYTHE_EINVAL;
    }
    result = hythe_services_call(services, &call, method, (uint32_t)id, timeout_ms);
    if (result >= 0 && command == HYTHE_IPC_STAT && call.result_bytes != sizeof *status) {
        return hythe_services_lie(services);
    }
    return result < 0 ? result : 0;
}

int hythe_shm_check(const struct hythe_shm *shm, const volatile void *at, size_t bytes,
                    uint32_t flags)
{
    /* A pointer below wraps to an offset that is too large. */
    uintptr_t offset = (uintptr_t)at - (uintptr_t)shm->address;

    if (shm->address == NULL || offset > shm->bytes || bytes > shm->bytes - offset) {
        return -HYTHE_EFAULT;
    }
    if ((shm->flags & HYTHE_SHM_RDONLY) != 0 && (flags & HYTHE_SHM_RDONLY) == 0) {
        return -HYTHE_EACCES;
    }
    return 0;
}
