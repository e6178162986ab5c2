/*
 * The real init of the experiment's board: begins multitasking, which is a program that takes all
 * CPU it can and the program under test.
 *
 * Executed as process 1 by init.sh, or by whatever reads ahead before it. It is told what to do by
 * its environment, which comes from the kernel's command line: `program`, its one argument `file`,
 * and `below`, the directory that is the program's root, if it is not one of ours. Programs of
 * others do not print `BBB`: start does when such a program has ended well. Behind the run it says
 * how many pages of the file were in memory when it was executed itself and how long the disk has
 * been busy, and ends the machine. Never returns.
 */
#include <fcntl.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <termios.h>

#include "console.h"

static const char *setting(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL || value[0] == '\0') {
        say("hythe failed: start: %s is not set\n", name);
        _exit(2);
    }
    return value;
}

static pid_t begin_hog(void)
{
    pid_t child = fork();

    if (child < 0) {
        give_up("fork", "hog");
    }
    if (child == 0) {
        for (;;) {
            __asm__ volatile("" ::: "memory");
        }
    }
    return child;
}

static pid_t begin_program(const char *below)
{
    const char *program = setting("program");
    char *words[] = {(char *)program, (char *)setting("file"), NULL};
    pid_t child = fork();

    if (child < 0) {
        give_up("fork", program);
    }
    if (child == 0) {
        if (below != NULL) {
            int nowhere = open("/dev/null", O_WRONLY);

            /* What it has to say would pass the serial line within the time. */
            if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || chroot(below) != 0 ||
                chdir("/") != 0) {
                give_up("enter", below);
            }
        }
        execv(program, words);
        give_up("execute", program);
    }
    return child;
}

/*
 * How long at least one request was under way at the disk, since the kernel was started: the tenth
 * number.
 */
static void say_disk_was_busy(void)
{
    FILE *statistics = fopen("/sys/block/vda/stat", "r");
    long long busy_ms;

    if (statistics != NULL &&
        fscanf(statistics, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lld", &busy_ms) == 1) {
        say("hythe disk busy %lld ms\n", busy_ms);
    }
}

/* Reaps whatever ends until it is the child. */
static int wait_for(pid_t child)
{
    int status = -1;
    pid_t ended;

    do {
        ended = wait(&status);
    } while (ended > 0 && ended != child);
    return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    const char *below = getenv("below");
    const char *path = setting("file");
    size_t resident = 0;
    int is_well;

    if (below == NULL) {
        int file = open(path, O_RDONLY);

        if (file < 0) {
            give_up("open", path);
        }
        resident = resident_pages(file, path);
        close(file);
    }
    begin_hog();
    is_well = wait_for(begin_program(below));
    if (is_well && below != NULL) {
        say("BBB\n");
    }
    if (is_well) {
        say("hythe start found %zu pages resident\n", resident);
        say_disk_was_busy();
        say("hythe done\n");
    } else {
        say("hythe failed: the program did not end well\n");
    }
    /* What was written has left the machine before it ends. */
    tcdrain(STDOUT_FILENO);
    reboot(RB_POWER_OFF);
    return 1;
}
