/*
 * A C program that closes all descriptors it finds open, those of the library among them: its
 * buffers stay its own as long as it runs, and its calls fail with a code. Prints "told", or the
 * line that went wrong. Run by programs.rs, with HYTHE_ROOT set.
 *
 *   closed         joins, closes, and starts itself again
 *   closed late    joins then, and writes into all buffers that it gets
 */
#define _GNU_SOURCE
#include "expect.h"
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)
#define LEASES 4
#define FILES 1024
#define OWN_FILES 60
#define SETS 2

static struct hythe_node *join(const char *name)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool = NULL;
    struct hythe_node *node = NULL;
    hythe_pool_options_init(&options, sizeof options);
    options.name = "closed";
    options.bytes = 24 << 20;
    EXPECT(hythe_pool_open_or_create(&options, &pool) == 0);
    EXPECT(hythe_node_join(pool, name, &node) == 0);
    hythe_pool_close(pool);
    return node;
}

/* Joining has looked at all participants. */
static int late(void)
{
    struct hythe_node *node = join("late");
    struct hythe_lease *lease;
    void *data;
    while (hythe_node_lease(node, BYTES, &lease) == 0) {
        EXPECT(hythe_lease_data(lease, &data) == 0);
        memset(data, 'B', BYTES);
    }
    /* Nothing is given back: the end of the process does that. */
    return 0;
}

static void close_all(void)
{
    int file;
    for (file = 3; file < FILES; file++)
        close(file);
}

/* Waited for once: it has a thread then. */
static struct hythe_wait_set *wait_set_of(struct hythe_node *node)
{
    struct hythe_wait_set *set;
    struct hythe_ready ready;
    int pipes[2];
    EXPECT(pipe(pipes) == 0);
    EXPECT(hythe_wait_set_open(node, &set) == 0);
    EXPECT(hythe_wait_set_attach_fd(set, pipes[0], HYTHE_READABLE, 1) == 0);
    EXPECT(hythe_wait_set_fd(set) >= 0);
    EXPECT(hythe_wait_set_wait(set, 0, &ready, 1) == 0);
    return set;
}

/*
 * The numbers of the library's descriptors are those of the program's files by now: every other one
 * an eventfd, which nothing but its count tells from another.
 */
static void leave_files_alone(struct hythe_node *node, struct hythe_wait_set **sets,
                              struct hythe_lease **leases)
{
    int files[OWN_FILES], index;
    uint64_t count;
    struct stat found;
    struct hythe_ready ready;
    for (index = 0; index < OWN_FILES; index++) {
        files[index] =
            index % 2 ? eventfd(7, 0) : open(getenv("HYTHE_ROOT"), O_TMPFILE | O_RDWR, 0600);
        EXPECT(files[index] >= 0);
    }
    EXPECT(hythe_wait_set_wait(sets[0], 0, &ready, 1) < 0);
    for (index = 0; index < SETS; index++)
        hythe_wait_set_close(sets[index]);
    for (index = 0; index < LEASES; index++)
        hythe_lease_release(leases[index]);
    hythe_node_leave(node);
    for (index = 0; index < OWN_FILES; index++) {
        EXPECT(fstat(files[index], &found) == 0 && found.st_size == 0);
        EXPECT(index % 2 || lseek(files[index], 0, SEEK_CUR) == 0);
        EXPECT(index % 2 == 0 || (read(files[index], &count, sizeof count) == 8 && count == 7));
    }
}

int main(int argc, char **argv)
{
    struct hythe_node *node;
    struct hythe_lease *leases[LEASES], *more;
    struct hythe_wait_set *sets[SETS];
    void *data[LEASES];
    const struct timespec nap = {0, 1000000};
    int index, result, status = -1;
    pid_t child;
    if (argc > 1)
        return late();
    node = join("early");
    for (index = 0; index < LEASES; index++) {
        EXPECT(hythe_node_lease(node, BYTES, &leases[index]) == 0);
        EXPECT(hythe_lease_data(leases[index], &data[index]) == 0);
        memset(data[index], 'A', BYTES);
    }
    for (index = 0; index < SETS; index++)
        sets[index] = wait_set_of(node);
    close_all();
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        execl(argv[0], argv[0], "late", (char *)NULL);
        _exit(1);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (index = 0; index < LEASES; index++)
        EXPECT(((char *)data[index])[0] == 'A' && ((char *)data[index])[BYTES - 1] == 'A');
    /* The watcher notices it at its next poll. */
    while ((result = hythe_node_lease(node, 100, &more)) == 0) {
        hythe_lease_release(more);
        nanosleep(&nap, NULL);
    }
    EXPECT(result == HYTHE_EPOOLLOST);
    EXPECT(strstr(hythe_last_error(), "closed by this program") != NULL);
    leave_files_alone(node, sets, leases);
    puts("told");
    fflush(stdout);
    /* The library's descriptors are none by now: it is not asked to close them. */
    _exit(0);
}
