/*
 * A task that closes all descriptors it finds open, those of the library among them: its calls fail
 * with a code, and it ends without touching the files that have their numbers by then. Prints
 * "told", or the line that went wrong. Run by programs.rs, as a job of two:
 *
 *   hythe run -n 2 -- closed_task close|leave|exit
 *
 * The second does not join, so that something is kept for it, until the first is done.
 */
#define _GNU_SOURCE
#include "expect.h"
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 1024
#define OWN_FILES 60
#define LOOKS 12000

static int files[OWN_FILES];
static char done[4096];

static void close_all(void)
{
    int file;
    for (file = 3; file < FILES; file++)
        close(file);
}

static void open_own(void)
{
    int index;
    for (index = 0; index < OWN_FILES; index++) {
        files[index] = open(getenv("HYTHE_ROOT"), O_TMPFILE | O_RDWR, 0600);
        EXPECT(files[index] >= 0);
        EXPECT(pwrite(files[index], "own", 3, 0) == 3);
    }
}

/* Open as before, of the same size, and nothing was read or written. */
static void check_own(void)
{
    struct stat found;
    int index;
    for (index = 0; index < OWN_FILES; index++) {
        EXPECT(fstat(files[index], &found) == 0 && found.st_size == 3);
        EXPECT(lseek(files[index], 0, SEEK_CUR) == 0);
    }
    EXPECT(close(open(done, O_CREAT | O_WRONLY, 0600)) == 0);
    puts("told");
    fflush(stdout);
}

static int wait_for_first(void)
{
    const struct timespec nap = {0, 10000000};
    int looks;
    for (looks = 0; looks < LOOKS && access(done, F_OK) != 0; looks++)
        nanosleep(&nap, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    struct hythe_task_options options;
    struct hythe_task *task = NULL;
    uint32_t other, ended;
    int result;
    EXPECT(argc == 2);
    EXPECT((size_t)snprintf(done, sizeof done, "%s/done", getenv("HYTHE_ROOT")) < sizeof done);
    if (strcmp(getenv("HYTHE_RANK"), "1") == 0)
        return wait_for_first();
    if (strcmp(argv[1], "exit") == 0)
        /* Before the library's own, so that it is called behind that. */
        EXPECT(atexit(check_own) == 0);
    hythe_task_options_init(&options, sizeof options);
    EXPECT(hythe_task_join(&options, &task) == 0);
    other = hythe_task_sibling(task, 1);
    EXPECT(hythe_task_send(task, other, 1, "kept", 4) == 0);
    EXPECT(hythe_task_notify_end(task, other) == 0);
    close_all();
    open_own();
    result = hythe_task_send(task, other, 1, "lost", 4);
    EXPECT(result == HYTHE_EPOOLLOST);
    EXPECT(strstr(hythe_last_error(), "closed by this program") != NULL);
    EXPECT(hythe_task_take_end(task, 0, &ended) == HYTHE_EPOOLLOST);
    EXPECT(hythe_task_barrier(task, "g", 1, 0) == HYTHE_EPOOLLOST);
    if (strcmp(argv[1], "exit") == 0)
        return 0;
    if (strcmp(argv[1], "leave") == 0)
        EXPECT(hythe_task_leave(task) == HYTHE_EPOOLLOST);
    else
        hythe_task_close(task);
    check_own();
    return 0;
}
