/*
 * Named counting semaphores, between tasks of this core and processes of Linux: those of
 * `hythe_sem_open()` there, found by the same names.
 *
 * As sem_open(3), sem_wait(3) and so on, with these differences: every function takes what the
 * program has started (hythe_services.h) or a semaphore, and returns 0 or more, or a negative
 * error number. Time-outs are from now, in milliseconds. Nothing is interrupted by a signal.
 *
 * A task that ends between a wait and its post, or a core that dies there, is a dead holder: the
 * next wait of anybody returns -HYTHE_EOWNERDEAD once and takes nothing, and hythe_sem_recover()
 * gives the counts back; from a semaphore made with HYTHE_SEM_RECOVER they come back at once.
 *
 * What hythe_services.h says of all calls holds here, too. -HYTHE_ENOBUFS: HYTHE_SERVICES_WAITS
 * calls of this core wait already. A wait is answered by the agent; if that is silent for so long
 * as a call may take behind its end, the wait returns -HYTHE_ETIMEDOUT, too, and whether a count
 * was taken is not known.
 */
#ifndef HYTHE_SEM_H
#define HYTHE_SEM_H

#include "hythe_services.h"

/* In `flags`: counts of a dead holder come back at once. */
#define HYTHE_SEM_RECOVER 0x10000u

struct hythe_sem {
    struct hythe_object object;
};

/*
 * Opens the semaphore; with HYTHE_O_CREAT it is made if there is none, with `mode` and `value`,
 * and with HYTHE_O_EXCL refused if there is one.
 *
 * 0; -HYTHE_ENOENT, _EEXIST, _EACCES; -HYTHE_EINVAL: a name or value that is none;
 * -HYTHE_ENAMETOOLONG; -HYTHE_EMFILE: 128 are open; -HYTHE_ENFILE: the pool has 64 objects.
 */
static inline int hythe_sem_open(struct hythe_services *services, const char *name, uint32_t flags,
                                 uint32_t mode, uint32_t value, struct hythe_sem *sem)
{
    uint32_t values[3];

    values[0] = mode;
    values[1] = value;
    values[2] = 0;
    return hythe_object_open(services, &sem->object, HYTHE_SEM_OPEN, name, flags, values);
}

/* Closes it: what this task took from it is nobody's hold any more. */
static inline int hythe_sem_close(struct hythe_sem *sem)
{
    return hythe_object_close(&sem->object, HYTHE_SEM_CLOSE);
}

/* Takes the name away; it goes when nobody has it open. -HYTHE_ENOENT, -HYTHE_EACCES. */
static inline int hythe_sem_unlink(struct hythe_services *services, const char *name)
{
    uint32_t values[3] = {0, 0, 0};

    return hythe_object_open(services, NULL, HYTHE_SEM_UNLINK, name, 0, values);
}

/*
 * Takes one count, waiting for it up to `timeout_ms`; with 0 it does not wait, as
 * hythe_sem_trywait().
 *
 * 0; -HYTHE_ETIMEDOUT; -HYTHE_EAGAIN: there is none, and it does not wait; -HYTHE_EOWNERDEAD.
 */
static inline int hythe_sem_timedwait(struct hythe_sem *sem, uint32_t timeout_ms)
{
    return hythe_object_call(&sem->object, HYTHE_SEM_WAIT, timeout_ms, NULL);
}

static inline int hythe_sem_trywait(struct hythe_sem *sem)
{
    return hythe_sem_timedwait(sem, 0);
}

static inline int hythe_sem_wait(struct hythe_sem *sem)
{
    return hythe_sem_timedwait(sem, HYTHE_FOREVER);
}

/* Adds one count, and ends one hold: this task's, else the oldest. 0; -HYTHE_EOVERFLOW. */
static inline int hythe_sem_post(struct hythe_sem *sem)
{
    return hythe_object_call(&sem->object, HYTHE_SEM_POST, 0, NULL);
}

static inline int hythe_sem_getvalue(struct hythe_sem *sem, uint32_t *value)
{
    return hythe_object_call(&sem->object, HYTHE_SEM_VALUE, 0, value);
}

/* Gives back the counts that dead holders had; `count` gets how many. */
static inline int hythe_sem_recover(struct hythe_sem *sem, uint32_t *count)
{
    return hythe_object_call(&sem->object, HYTHE_SEM_RECOVER_COUNTS, 0, count);
}

#endif
