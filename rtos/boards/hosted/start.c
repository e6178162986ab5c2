/*
 * Start-up of the hosted board: maps the region and the link, connects the doorbell, and runs
 * FreeRTOS in this process.
 *
 * Started by the Linux agent as board.toml says. Ends with the process that started it, with the
 * doorbell, on SIGTERM, or with board_fail().
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "doorbell.h"
#include "hythe_rt.h"

struct options {
    const char *region;
    /* Where in the region's file segments begin; NULL: nowhere. */
    const char *segments;
    const char *link;
    const char *doorbell;
};

static int wrong_use(const char *program)
{
    fprintf(stderr, "usage: %s --region FILE [--segments OFFSET] --link FILE --doorbell SOCKET\n",
            program);
    return 2;
}

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int parse(struct options *options, int argc, char **argv)
{
    int i;

    for (i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--region") == 0) {
            options->region = argv[i + 1];
        } else if (strcmp(argv[i], "--segments") == 0) {
            options->segments = argv[i + 1];
        } else if (strcmp(argv[i], "--link") == 0) {
            options->link = argv[i + 1];
        } else if (strcmp(argv[i], "--doorbell") == 0) {
            options->doorbell = argv[i + 1];
        } else {
            return 0;
        }
    }
    return i == argc && options->region != NULL && options->link != NULL &&
           options->doorbell != NULL;
}

/* Parts the region's file: slots, and segments from that byte on. -1 if it is none of the file. */
static int cut_segments(struct board *board, const char *from)
{
    char *end;
    unsigned long offset = strtoul(from, &end, 10);

    if (end == from || *end != '\0' || offset > board->region_bytes) {
        errno = EINVAL;
        return -1;
    }
    board->segments = (char *)board->region + offset;
    board->segments_bytes = board->region_bytes - offset;
    board->region_bytes = offset;
    return 0;
}

/* The whole file, shared and in memory from the start; NULL with errno. */
static void *map(const char *path, size_t *bytes)
{
    struct stat status;
    void *memory = MAP_FAILED;
    int file = open(path, O_RDWR | O_CLOEXEC);

    if (file < 0) {
        return NULL;
    }
    if (fstat(file, &status) == 0) {
        *bytes = (size_t)status.st_size;
        memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    }
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

void vApplicationIdleHook(void)
{
    /*
     * Any signal ends it, and the handlers switch tasks themselves, so no wake-up can fall between.
     */
    pause();
}

void board_write(const char *text, size_t bytes)
{
    struct pollfd console = {.fd = STDOUT_FILENO, .events = POLLOUT};

    /* Interrupts off: a task that is switched away inside a system call would keep its lock. */
    taskENTER_CRITICAL();
    if (poll(&console, 1, 0) > 0 && (console.revents & POLLOUT) != 0) {
        ssize_t written = write(STDOUT_FILENO, text, bytes);
        (void)written;
    }
    taskEXIT_CRITICAL();
}

void board_end(void)
{
    _exit(0);
}

void board_fail(const char *file, int line)
{
    char text[160];
    int length = snprintf(text, sizeof text, "core failed at %s:%d\n", file, line);

    if (length > 0) {
        ssize_t written = write(STDOUT_FILENO, text, (size_t)length);
        (void)written;
    }
    _exit(1);
}

/* Stores into link words that this process may still make; 0: any number. */
static unsigned long stores_left;

/*
 * Called behind each store into link words: caches are coherent here, so the hook is free for the
 * kill sweep.
 */
static void die_at_the_last_store(void *context, const volatile void *at, size_t bytes)
{
    (void)context;
    (void)at;
    (void)bytes;
    if (--stores_left == 0) {
        (void)kill(getpid(), SIGKILL);
    }
}

int main(int argc, char **argv)
{
    struct options options = {NULL, NULL, NULL, NULL};
    struct board board = {.sleep_looks = 0};
    const char *stores = getenv("HYTHE_CORE_STORES");

    if (!parse(&options, argc, argv)) {
        return wrong_use(argv[0]);
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return failed(argv[0]);
    }
    board.region = map(options.region, &board.region_bytes);
    if (board.region == NULL) {
        return failed(options.region);
    }
    if (options.segments != NULL && cut_segments(&board, options.segments) != 0) {
        return failed(options.segments);
    }
    board.link = map(options.link, &board.link_bytes);
    if (board.link == NULL) {
        return failed(options.link);
    }
    if (doorbell_connect(options.doorbell) != 0) {
        return failed(options.doorbell);
    }
    if (stores != NULL) {
        stores_left = strtoul(stores, NULL, 10);
        board.clean = die_at_the_last_store;
    }
    app_start(&board);
    vTaskStartScheduler();
    /* Only a kernel without memory for its own tasks returns. */
    return 1;
}
