/*
 * A pool whose files are cut away under a C program: an error with a code, no death. Prints "told",
 * or the line that went wrong. Run by programs.rs, with HYTHE_ROOT set.
 *
 *   lost library   the library's handler for SIGBUS
 *   lost program   the program's own, which asks the library
 *   lost passed    the program's, installed before: faults elsewhere are its
 */
#include "expect.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static sigjmp_buf elsewhere;

static void own_handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    asked++;
    if (info->si_code > 0 && hythe_sigbus_settle(info->si_addr) == 1)
        return;
    signal(number, SIG_DFL);
}

static void first_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    asked++;
    siglongjmp(elsewhere, 1);
}

static void install(void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    EXPECT(sigaction(SIGBUS, &action, NULL) == 0);
}

static void cut(const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%u/lost/%s", getenv("HYTHE_ROOT"), (unsigned)getuid(), file);
    EXPECT(truncate(path, 0) == 0);
}

/* A fault in a file that is no pool's. */
static void fault_elsewhere(void)
{
    FILE *file = tmpfile();
    volatile char *bytes;
    EXPECT(file != NULL);
    bytes = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    EXPECT(bytes != MAP_FAILED);
    if (sigsetjmp(elsewhere, 1) == 0) {
        (void)bytes[0];
        EXPECT(!"a byte that is not there was read");
    }
    EXPECT(asked == 1);
}

int main(int argc, char **argv)
{
    struct hythe_pool_options options;
    struct hythe_pool *pool;
    struct hythe_node *node;
    struct hythe_publisher *publisher;
    struct hythe_subscriber *subscriber;
    struct hythe_notifier *notifier;
    struct hythe_listener *listener;
    struct hythe_sample *sample, *other, *samples[2];
    struct hythe_lease *lease;
    struct hythe_message message;
    const void *data;
    uint64_t events;
    char text[4];
    int own = argc == 2 && strcmp(argv[1], "program") == 0;

    if (argc == 2 && strcmp(argv[1], "passed") == 0)
        install(first_handler);
    if (own) {
        install(own_handler);
        EXPECT(hythe_sigbus_leave_to_program() == 0);
    }
    EXPECT(hythe_sigbus_settle(&options) == 0);
    hythe_pool_options_init(&options, sizeof options);
    options.name = "lost";
    options.bytes = 16 << 20;
    options.trust_peers = 1;
    EXPECT(hythe_pool_open_or_create(&options, &pool) == 0);
    EXPECT(hythe_node_join(pool, "lost", &node) == 0);
    EXPECT(hythe_subscriber_open(node, "way", NULL, &subscriber) == 0);
    EXPECT(hythe_publisher_open(node, "way", NULL, &publisher) == 0);
    EXPECT(hythe_notifier_open(node, "bells", &notifier) == 0);
    EXPECT(hythe_listener_open(node, "bells", &listener) == 0);
    EXPECT(hythe_publisher_publish_copy(publisher, "abcd", 4, NULL) == 1);
    EXPECT(hythe_subscriber_try_take(subscriber, &sample) == 1);
    EXPECT(hythe_sample_data(sample, &data) == 0 && memcmp(data, "abcd", 4) == 0);
    EXPECT(hythe_node_check_pool(node) == 0);
    if (argc == 2 && strcmp(argv[1], "passed") == 0)
        fault_elsewhere();
    EXPECT(hythe_node_lease(node, 4, &lease) == 0);

    cut("region.0");
    /* In place: zeroes, at which the program has to ask. */
    EXPECT(memcmp(data, "\0\0\0\0", 4) == 0);
    EXPECT(!own || asked == 1);
    EXPECT(hythe_node_check_pool(node) == HYTHE_EPOOLLOST);
    EXPECT(strstr(hythe_last_error(), "region.0") != NULL);
    EXPECT(hythe_sample_read(sample, 0, text, 4) == HYTHE_EPOOLLOST);
    EXPECT(hythe_sample_read_headroom(sample, 0, text, 4) == HYTHE_EPOOLLOST);
    EXPECT(hythe_lease_read(lease, 0, text, 4) == HYTHE_EPOOLLOST);
    message.lease = lease;
    message.bytes = 4;
    EXPECT(hythe_publisher_publish_batch(publisher, &message, 1, NULL) == HYTHE_EPOOLLOST &&
           message.lease == NULL);
    EXPECT(hythe_subscriber_take(subscriber, HYTHE_SECOND_NS, &other) == HYTHE_EPOOLLOST);
    EXPECT(hythe_subscriber_try_take_batch(subscriber, samples, 2) == HYTHE_EPOOLLOST &&
           samples[0] == NULL);

    cut("control");
    EXPECT(hythe_notifier_notify(notifier, HYTHE_EVENT(0)) == HYTHE_EPOOLLOST);
    EXPECT(hythe_listener_try_take(listener, &events) == HYTHE_EPOOLLOST && events == 0);
    EXPECT(hythe_listener_wait(listener, 600 * HYTHE_SECOND_NS, &events) == HYTHE_EPOOLLOST);
    EXPECT(hythe_node_lease(node, 4, &lease) == HYTHE_EPOOLLOST && lease == NULL);
    /* Closing what is lost is allowed, and ends. */
    hythe_sample_release(sample);
    hythe_listener_close(listener);
    hythe_notifier_close(notifier);
    hythe_publisher_close(publisher);
    hythe_subscriber_close(subscriber);
    hythe_node_leave(node);
    hythe_pool_close(pool);
    EXPECT(hythe_pool_remove(&options, 1) == 0);
    printf("told\n");
    return 0;
}
