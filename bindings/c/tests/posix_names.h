/*
 * The names of POSIX for semaphores and message queues, as those of hythe.h: in front of each
 * program of posixtestsuite (-include), which then knows nothing of it.
 *
 * A sem_t is a place with a handle. One without a name (sem_init) is made under a name that nobody
 * else asks for, and unlinked at once.
 */
#ifndef HYTHE_POSIX_NAMES_H
#define HYTHE_POSIX_NAMES_H

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <hythe.h>

#undef SEM_FAILED
#undef SEM_VALUE_MAX
#undef MQ_PRIO_MAX
#define SEM_FAILED NULL
#define SEM_VALUE_MAX 32767
#define MQ_PRIO_MAX 32

struct names_sem {
    struct hythe_sem *handle;
};

/* One place for each handle: the same semaphore has the same address. */
static inline struct names_sem *names_place(struct hythe_sem *handle)
{
    static struct names_sem places[256];
    unsigned index;
    for (index = 0; handle != NULL && index < 256; index++) {
        if (places[index].handle == handle || places[index].handle == NULL) {
            places[index].handle = handle;
            return &places[index];
        }
    }
    return NULL;
}

#define names_sem_open(...) names_place(hythe_sem_open(__VA_ARGS__))

static inline int names_sem_init(struct names_sem *sem, int shared, unsigned value)
{
    static unsigned made;
    char name[64];
    (void)shared;
    if (sem == NULL || value > SEM_VALUE_MAX) {
        errno = EINVAL;
        return -1;
    }
    snprintf(name, sizeof name, "/unnamed-%ld-%u", (long)getpid(), made++);
    sem->handle = hythe_sem_open(name, O_CREAT | O_EXCL, 0600, value);
    return sem->handle == NULL ? -1 : hythe_sem_unlink(name);
}

static inline struct hythe_sem *names_handle(const struct names_sem *sem)
{
    return sem == NULL ? NULL : sem->handle;
}

static inline int names_sem_close(struct names_sem *sem)
{
    return hythe_sem_close(names_handle(sem));
}

static inline int names_sem_wait(struct names_sem *sem)
{
    return hythe_sem_wait(names_handle(sem));
}

static inline int names_sem_trywait(struct names_sem *sem)
{
    return hythe_sem_trywait(names_handle(sem));
}

static inline int names_sem_timedwait(struct names_sem *sem, const struct timespec *until)
{
    return hythe_sem_timedwait(names_handle(sem), until);
}

static inline int names_sem_post(struct names_sem *sem)
{
    return hythe_sem_post(names_handle(sem));
}

static inline int names_sem_getvalue(struct names_sem *sem, int *value)
{
    return hythe_sem_getvalue(names_handle(sem), value);
}

#define sem_t struct names_sem
#define sem_open names_sem_open
#define sem_close names_sem_close
#define sem_unlink hythe_sem_unlink
#define sem_init names_sem_init
#define sem_destroy names_sem_close
#define sem_wait names_sem_wait
#define sem_trywait names_sem_trywait
#define sem_timedwait names_sem_timedwait
#define sem_post names_sem_post
#define sem_getvalue names_sem_getvalue

#define mqd_t hythe_mqd_t
#define mq_open hythe_mq_open
#define mq_close hythe_mq_close
#define mq_unlink hythe_mq_unlink
#define mq_send hythe_mq_send
#define mq_timedsend hythe_mq_timedsend
#define mq_receive hythe_mq_receive
#define mq_timedreceive hythe_mq_timedreceive
#define mq_getattr hythe_mq_getattr
#define mq_setattr hythe_mq_setattr
#define mq_notify hythe_mq_notify

#endif /* HYTHE_POSIX_NAMES_H */
