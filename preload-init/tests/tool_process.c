/*
 * What a program was started with, and starting one with odd signals, for behaviour.sh.
 *
 *   NAME [ARGUMENT...]               shows arguments, environment, signals, open files, directory,
 *                                    priorities, limits
 *   NAME --odd-signals COMMAND...    blocks, ignores and leaves pending some signals, then executes
 *                                    the command
 *
 * Static, so that it is an init where there is nothing else. Never changes anything that it shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static void show_signals(void)
{
    struct sigaction action;
    sigset_t blocked;
    sigset_t pending;
    int number;

    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    for (number = 1; number < 65; number++) {
        /* The C library keeps two for itself and does not tell of them. */
        if (sigaction(number, NULL, &action) != 0) {
            continue;
        }
        printf("signal %d:%s%s%s%s\n", number, sigismember(&blocked, number) == 1 ? " blocked" : "",
               sigismember(&pending, number) == 1 ? " pending" : "",
               action.sa_handler == SIG_IGN ? " ignored" : "",
               action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL ? " handled" : "");
    }
}

static void show_files(void)
{
    struct stat stat;
    int handle;

    for (handle = 0; handle < 1024; handle++) {
        if (fstat(handle, &stat) == 0) {
            printf("open file %d: device %llu inode %llu flags %x status %x at %lld\n", handle,
                   (unsigned long long)stat.st_dev, (unsigned long long)stat.st_ino,
                   (unsigned)fcntl(handle, F_GETFD), (unsigned)fcntl(handle, F_GETFL),
                   (long long)lseek(handle, 0, SEEK_CUR));
        }
    }
}

static void show_limits(void)
{
    struct rlimit limit;
    char directory[4096];
    mode_t mask = umask(0);
    int i;

    umask(mask);
    printf("umask %o\n", mask);
    printf("directory %s\n",
           getcwd(directory, sizeof directory) != NULL ? directory : strerror(errno));
    errno = 0;
    printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
    printf("I/O priority %ld\n", syscall(SYS_ioprio_get, 1, 0));
    printf("scheduling policy %d\n", sched_getscheduler(0));
    printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
    printf("no new privileges %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    for (i = 0; i < RLIM_NLIMITS; i++) {
        if (getrlimit((__rlimit_resource_t)i, &limit) == 0) {
            printf("limit %d: %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
                   (unsigned long long)limit.rlim_max);
        }
    }
}

static int with_odd_signals(char **command)
{
    static const int blocked[] = {SIGTERM, SIGUSR2, SIGPIPE, 40};
    static const int ignored[] = {SIGHUP, SIGUSR1, SIGCHLD, 41};
    sigset_t set;
    size_t i;

    sigemptyset(&set);
    for (i = 0; i < sizeof blocked / sizeof *blocked; i++) {
        sigaddset(&set, blocked[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        signal(ignored[i], SIG_IGN);
    }
    raise(SIGUSR2);
    raise(SIGPIPE);
    execv(command[0], command);
    perror(command[0]);
    return 127;
}

int main(int argc, char **argv)
{
    int i;

    if (argc > 2 && strcmp(argv[1], "--odd-signals") == 0) {
        return with_odd_signals(argv + 2);
    }
    printf("process 1: %s\n", getpid() == 1 ? "yes" : "no");
    for (i = 0; i < argc; i++) {
        printf("argument %d: %s\n", i, argv[i]);
    }
    for (i = 0; environ[i] != NULL; i++) {
        printf("environment: %s\n", environ[i]);
    }
    show_signals();
    show_files();
    show_limits();
    return 0;
}
