/*
 * A signal ends a wait of each kind, if its handler says so, and not otherwise. Prints "ended", or
 * the line that went wrong. Run by programs.rs, with HYTHE_ROOT set.
 */
#include "expect.h"
#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* No wait lasts so long. */
static const uint64_t LONG_NS = 600 * HYTHE_SECOND_NS;
static const uint64_t SHORT_NS = HYTHE_SECOND_NS / 50;

static struct hythe_node *node;
static volatile sig_atomic_t handled;
static volatile sig_atomic_t interrupts;

static void handler(int number)
{
    (void)number;
    handled++;
    if (interrupts)
        hythe_node_interrupt(node);
}

/* Has a signal sent to this process a moment from now, while it waits. */
static void signal_soon(void)
{
    pid_t parent = getpid(), child = fork();

    EXPECT(child >= 0);
    if (child == 0) {
        struct timespec moment = {0, 50000000};
        nanosleep(&moment, NULL);
        /* Not the child's to end: nothing happens to the parent's waits. */
        _exit(hythe_node_interrupt(node) != HYTHE_EFORKED || kill(parent, SIGUSR1) != 0);
    }
}

static void collect(void)
{
    int status;

    while (wait(&status) < 0) {
    }
    EXPECT(status == 0);
}

static void check_takes(void)
{
    struct hythe_subscriber *subscriber;
    struct hythe_sample *sample;

    EXPECT(hythe_subscriber_open(node, "messages", NULL, &subscriber) == 0);
    /* Without a word of the handler the wait continues. */
    interrupts = 0;
    signal_soon();
    EXPECT(hythe_subscriber_take(subscriber, HYTHE_SECOND_NS / 2, &sample) == 0);
    EXPECT(handled == 1);
    collect();
    interrupts = 1;
    signal_soon();
    EXPECT(hythe_subscriber_take(subscriber, LONG_NS, &sample) == HYTHE_EINTERRUPTED);
    EXPECT(sample == NULL && handled == 2);
    collect();
    EXPECT(hythe_subscriber_take(subscriber, SHORT_NS, &sample) == 0);
    /* Between two waits: the next one. */
    EXPECT(raise(SIGUSR1) == 0);
    EXPECT(hythe_subscriber_try_take(subscriber, &sample) == 0);
    EXPECT(hythe_subscriber_take(subscriber, LONG_NS, &sample) == HYTHE_EINTERRUPTED);
    hythe_subscriber_close(subscriber);
}

static void check_wait_set(void)
{
    struct hythe_wait_set *wait_set;
    struct hythe_ready ready;
    int ends[2];

    EXPECT(pipe(ends) == 0);
    EXPECT(hythe_wait_set_open(node, &wait_set) == 0);
    EXPECT(hythe_wait_set_attach_fd(wait_set, ends[0], HYTHE_READABLE, 1) == 0);
    signal_soon();
    EXPECT(hythe_wait_set_wait(wait_set, LONG_NS, &ready, 1) == HYTHE_EINTERRUPTED);
    collect();
    EXPECT(hythe_wait_set_wait(wait_set, SHORT_NS, &ready, 1) == 0);
    hythe_wait_set_close(wait_set);
}

int main(void)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    hythe_pool_options_init(&options, sizeof options);
    options.name = "interrupts";
    options.bytes = 16 << 20;
    EXPECT(hythe_pool_open_or_create(&options, &pool) == 0);
    EXPECT(hythe_node_join(pool, "interrupted", &node) == 0);
    EXPECT(hythe_node_interrupt(NULL) == HYTHE_EARGUMENT);
    check_takes();
    check_wait_set();
    hythe_node_leave(node);
    hythe_pool_close(pool);
    puts("ended");
    return 0;
}
