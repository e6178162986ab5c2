/*
 * A process forks while its other threads open and close semaphores and message queues: each child
 * has one thread, and uses both all the same.
 */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hythe.h>

#define THREADS 3
#define CHILDREN 60
/* A child that waits in vain ends by its alarm. */
#define CHILD_SECONDS 60u

static volatile int ends;

static int use_both(void)
{
    struct hythe_sem *sem = hythe_sem_open("/s", O_CREAT, 0600, 0);
    hythe_mqd_t queue = hythe_mq_open("/q", O_CREAT | O_RDWR, 0600, (struct mq_attr *)NULL);
    int done = sem != NULL && queue != (hythe_mqd_t)-1;

    if (sem != NULL) {
        done &= hythe_sem_post(sem) == 0 && hythe_sem_close(sem) == 0;
    }
    if (queue != (hythe_mqd_t)-1) {
        done &= hythe_mq_close(queue) == 0;
    }
    return done;
}

static void *open_and_close(void *failures)
{
    while (!ends) {
        *(int *)failures += !use_both();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int failures[THREADS] = {0};
    int good = 0;
    int i;

    if (!use_both()) {
        printf("%s\n", hythe_last_error());
        return 1;
    }
    for (i = 0; i < THREADS; i++) {
        (void)pthread_create(&threads[i], NULL, open_and_close, &failures[i]);
    }
    for (i = 0; i < CHILDREN; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            (void)alarm(CHILD_SECONDS);
            _exit(use_both() ? 0 : 1);
        }
        (void)waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    ends = 1;
    for (i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    printf("children: %d of %d\n", good, CHILDREN);
    printf("failures: %d\n", failures[0] + failures[1] + failures[2]);
    return 0;
}
