/*
 * Semaphores and message queues from C: a handler that posts, a wait that a signal ends, a forked
 * child, a file descriptor, and a message queue's notification.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hythe.h>

static struct hythe_sem *posted;

static void post(int signal)
{
    (void)signal;
    hythe_sem_post(posted);
}

static void nothing(int signal)
{
    (void)signal;
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(signal, &action, NULL);
}

static int in_child(void)
{
    /* The parent's handle: works here, too, and what is taken is this process's. */
    return hythe_sem_wait(posted) == 0 && hythe_sem_post(posted) == 0 ? 0 : 1;
}

/* What a wait returns behind a child that took the count and ended. */
static void take_and_leave(struct hythe_sem *taken, void (*leave)(int), time_t seconds)
{
    struct timespec late;
    pid_t child;
    int waited;

    hythe_sem_post(taken);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        leave(hythe_sem_wait(taken));
    }
    waitpid(child, NULL, 0);
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += seconds;
    waited = hythe_sem_timedwait(taken, &late);
    printf("%d: %s\n", waited, strerror(errno));
}

int main(void)
{
    struct hythe_sem *empty = hythe_sem_open("/empty", O_CREAT, 0600, 0);
    struct timespec soon;
    int value = -1, status = -1;
    hythe_mqd_t queue;
    char message[8192];
    pid_t child;
    struct pollfd file;

    posted = hythe_sem_open("/posted", O_CREAT | O_EXCL, 0600, 0);
    if (posted == NULL || empty == NULL) {
        printf("%s\n", hythe_last_error());
        return 1;
    }
    handle(SIGUSR1, post);
    raise(SIGUSR1);
    printf("posted by a handler: %d\n", hythe_sem_trywait(posted));
    hythe_sem_post(posted);

    handle(SIGALRM, nothing);
    alarm(1);
    printf("interrupted: %d", hythe_sem_wait(empty));
    printf(" %d\n", errno == EINTR);

    clock_gettime(CLOCK_REALTIME, &soon);
    printf("timed out: %d", hythe_sem_timedwait(empty, &soon));
    printf(" %d\n", errno == ETIMEDOUT);

    fflush(stdout);
    child = fork();
    if (child == 0) {
        _exit(in_child());
    }
    waitpid(child, &status, 0);
    hythe_sem_getvalue(posted, &value);
    printf("child: %d, value %d\n", WEXITSTATUS(status), value);

    take_and_leave(empty, exit, 1);
    /* As long as a busy machine may take to tell. */
    take_and_leave(empty, _exit, 60);

    queue = hythe_mq_open("/queue", O_CREAT | O_RDWR | O_NONBLOCK, 0600, (struct mq_attr *)NULL);
    file.fd = hythe_mq_fd(queue);
    file.events = POLLIN;
    printf("empty: %d\n", poll(&file, 1, 0));
    printf("sent: %d\n", hythe_mq_send(queue, "hello", 6, 3));
    printf("waits: %d\n", poll(&file, 1, 10000));
    printf("received: %d", (int)hythe_mq_receive(queue, message, sizeof message, NULL));
    printf(" %s\n", message);
    printf("again: %d", (int)hythe_mq_receive(queue, message, sizeof message, NULL));
    printf(" %d\n", errno == EAGAIN);
    printf("closed: %d", hythe_mq_close(queue));
    printf(" %d", hythe_mq_unlink("/queue"));
    printf(" %d\n", hythe_mq_close(queue));
    return 0;
}
