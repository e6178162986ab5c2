/*
 * What the C API must refuse: wrong arguments, handles of a parent, sizes, types that do not fit.
 * Prints "all refused", or the line that was not. Run by programs.rs. Never waits for anybody.
 */
#include "expect.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hythe_pool *pool;
static struct hythe_node *node;

static void make(int trust)
{
    struct hythe_pool_options options;
    EXPECT(hythe_pool_options_init(&options, sizeof options) == 0);
    options.name = "refusals";
    options.bytes = 16 << 20;
    options.trust_peers = (uint32_t)trust;
    EXPECT(hythe_pool_open_or_create(&options, &pool) == 0);
    EXPECT(hythe_node_join(pool, "refusals", &node) == 0);
}

static void leave(void)
{
    hythe_node_leave(node);
    hythe_pool_close(pool);
}

/* More than there is, and less than the tables need unless they are those of a small device. */
static void sizes(void)
{
    struct hythe_pool_options options;
    EXPECT(hythe_pool_options_init(&options, sizeof options) == 0);
    options.name = "sized";
    options.bytes = UINT64_MAX;
    EXPECT(hythe_pool_create(&options) == (sizeof(size_t) == 8 ? HYTHE_ENOROOM : HYTHE_EARGUMENT));
    EXPECT(sizeof(size_t) < 8 || strstr(hythe_last_error(), "at most") != NULL);
    options.bytes = 2 << 20;
    EXPECT(hythe_pool_create(&options) < 0 &&
           strstr(hythe_last_error(), "make the tables smaller") != NULL);
    options.small = 1;
    EXPECT(hythe_pool_create(&options) == 1);
    EXPECT(hythe_pool_remove(&options, 0) == 0);
}

/* A picture has a place in a small pool where a class is asked for. */
static void classes(void)
{
    struct hythe_pool_options options;
    struct hythe_pool *sized = NULL;
    struct hythe_node *member = NULL;
    struct hythe_lease *lease = NULL;
    EXPECT(hythe_pool_options_init(&options, sizeof options) == 0);
    options.name = "classes";
    options.bytes = 24 << 20;
    options.small = 1;
    options.classes[0].payload_bytes = 8294400;
    options.classes[0].count = 2;
    EXPECT(hythe_pool_open_or_create(&options, &sized) == 0);
    EXPECT(hythe_node_join(sized, "classes", &member) == 0);
    EXPECT(hythe_node_lease(member, 8294400, &lease) == 0);
    hythe_lease_release(lease);
    EXPECT(hythe_node_lease(member, 8, &lease) == 0);
    hythe_lease_release(lease);
    hythe_node_leave(member);
    hythe_pool_close(sized);
    EXPECT(hythe_pool_remove(&options, 0) == 0);
    options.classes[0].count = UINT32_MAX;
    EXPECT(hythe_pool_create(&options) < 0);
}

/* What a slow subscriber did not get is told to it, and to nobody else. */
static void missed(void)
{
    struct hythe_subscriber_options shallow;
    struct hythe_statistics counted = {sizeof counted, 0, 0, 0, 0, 0, 0};
    struct hythe_subscriber *slow = NULL, *whole = NULL;
    struct hythe_publisher *publisher = NULL;
    struct hythe_sample *sample = NULL;
    int number;
    hythe_subscriber_options_init(&shallow, sizeof shallow);
    shallow.depth = 2;
    EXPECT(hythe_subscriber_open(node, "missed", &shallow, &slow) == 0);
    EXPECT(hythe_subscriber_open(node, "missed", NULL, &whole) == 0);
    EXPECT(hythe_publisher_open(node, "missed", NULL, &publisher) == 0);
    for (number = 0; number < 5; number++)
        EXPECT(hythe_publisher_publish_copy(publisher, &number, sizeof number, NULL) >= 0);
    for (number = 0; number < 2; number++) {
        EXPECT(hythe_subscriber_try_take(slow, &sample) == 1);
        EXPECT(hythe_sample_missed_before(sample) == 0);
        hythe_sample_release(sample);
    }
    EXPECT(hythe_publisher_publish_copy(publisher, &number, sizeof number, NULL) >= 0);
    EXPECT(hythe_subscriber_try_take(slow, &sample) == 1);
    EXPECT(hythe_sample_missed_before(sample) == 3);
    hythe_sample_release(sample);
    EXPECT(hythe_sample_missed_before(NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_subscriber_statistics(slow, &counted) == 0 && counted.dropped == 3);
    EXPECT(hythe_subscriber_statistics(whole, &counted) == 0 && counted.dropped == 0);
    hythe_publisher_close(publisher);
    hythe_subscriber_close(slow);
    hythe_subscriber_close(whole);
}

static void pools(void)
{
    struct hythe_pool_options options;
    struct hythe_pool *none = pool;
    EXPECT(hythe_pool_options_init(NULL, sizeof options) == HYTHE_EARGUMENT);
    EXPECT(hythe_pool_options_init(&options, 0) == HYTHE_EARGUMENT);
    EXPECT(hythe_pool_options_init(&options, sizeof options) == 0);
    EXPECT(hythe_pool_open(&options, &none) == HYTHE_EARGUMENT && none == NULL);
    options.name = "nowhere";
    EXPECT(hythe_pool_open(&options, &none) == HYTHE_ENOPOOL);
    EXPECT(strstr(hythe_last_error(), "nowhere") != NULL);
    EXPECT(hythe_pool_remove(&options, 0) == HYTHE_ENOPOOL);
    EXPECT(hythe_pool_open(&options, NULL) == HYTHE_EARGUMENT);
    options.name = "a/b";
    EXPECT(hythe_pool_open(&options, &none) == HYTHE_ENAME);
    options.name = "refusals";
    EXPECT(hythe_pool_create(&options) == 0);
    EXPECT(hythe_pool_remove(&options, 0) == HYTHE_EINUSE);
    sizes();
    classes();
    options.size = 7;
    EXPECT(hythe_pool_open(&options, &none) == HYTHE_EARGUMENT);
    hythe_pool_close(NULL);
    hythe_node_leave(NULL);
}

static void buffers(void)
{
    struct hythe_lease *lease;
    char bytes[8] = "";
    EXPECT(hythe_node_lease(NULL, 8, &lease) == HYTHE_EARGUMENT && lease == NULL);
    EXPECT(hythe_node_lease(node, (size_t)1 << 40, &lease) == HYTHE_ETOOLARGE);
    EXPECT(hythe_node_lease(node, 8, &lease) == 0);
    EXPECT(hythe_lease_write(lease, hythe_lease_capacity(lease), bytes, 1) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_write(lease, (size_t)-1, bytes, 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_write(lease, 0, NULL, 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_read_stream(lease, -1, 0, 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_read_stream(lease, 1000, 0, 8) == HYTHE_EFILE);
    hythe_lease_release(lease);
    hythe_lease_release(NULL);
    EXPECT(hythe_lease_capacity(NULL) == 0);
}

/* A handle that was given up is not the next one, which has the same place. */
static void stale(void)
{
    struct hythe_publisher *publisher;
    struct hythe_subscriber *subscriber;
    struct hythe_lease *lease, *next;
    struct hythe_sample *sample, *later;
    char bytes[8] = "stale";
    EXPECT(hythe_node_lease(node, 8, &lease) == 0);
    hythe_lease_release(lease);
    EXPECT(hythe_node_lease(node, 8, &next) == 0);
    hythe_lease_release(lease);
    EXPECT(hythe_lease_capacity(lease) == 0 && strstr(hythe_last_error(), "given up") != NULL);
    EXPECT(hythe_lease_write(lease, 0, bytes, 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_write(next, 0, bytes, 8) == 0);
    EXPECT(hythe_subscriber_open(node, "stale", NULL, &subscriber) == 0);
    EXPECT(hythe_publisher_open(node, "stale", NULL, &publisher) == 0);
    EXPECT(hythe_publisher_publish(publisher, lease, 8, NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_publisher_publish(publisher, next, 8, NULL) == 1);
    EXPECT(hythe_publisher_publish_copy(publisher, "second", 7, NULL) == 1);
    EXPECT(hythe_subscriber_try_take(subscriber, &sample) == 1);
    hythe_sample_release(sample);
    EXPECT(hythe_subscriber_try_take(subscriber, &later) == 1);
    hythe_sample_release(sample);
    EXPECT(hythe_sample_length(sample) == 0);
    EXPECT(hythe_sample_length(later) == 7);
    EXPECT(hythe_sample_read(later, 0, bytes, 7) == 0 && strcmp(bytes, "second") == 0);
    hythe_sample_release(later);
    hythe_publisher_close(publisher);
    hythe_subscriber_close(subscriber);
}

static void channels(void)
{
    struct hythe_channel_type type = {sizeof type, "point", 16, 8, 1, 0};
    struct hythe_publisher_options options;
    struct hythe_subscriber_options wishes;
    struct hythe_publisher *publisher, *other;
    struct hythe_subscriber *subscriber;
    struct hythe_listener *listener;
    hythe_publisher_options_init(&options, sizeof options);
    options.carries = &type;
    EXPECT(hythe_publisher_open(node, "points", &options, &publisher) == 0);
    type.version = 2;
    EXPECT(hythe_publisher_open(node, "points", &options, &other) == HYTHE_EMISMATCH &&
           other == NULL);
    EXPECT(strstr(hythe_last_error(), "version 2") != NULL);
    EXPECT(hythe_listener_open(node, "points", &listener) == HYTHE_EMISMATCH);
    EXPECT(hythe_publisher_open(node, NULL, NULL, &other) == HYTHE_EARGUMENT);
    EXPECT(hythe_publisher_open(node, "", NULL, &other) == HYTHE_ENAME);
    EXPECT(hythe_publisher_publish(publisher, NULL, 0, NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_publisher_forward(publisher, NULL, NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_publisher_forward_copy(publisher, NULL, NULL) == HYTHE_EARGUMENT);
    hythe_subscriber_options_init(&wishes, sizeof wishes);
    wishes.when_full = HYTHE_BLOCK;
    EXPECT(hythe_subscriber_open(node, "points", &wishes, &subscriber) == HYTHE_EARGUMENT);
    wishes.when_full = 99;
    EXPECT(hythe_subscriber_open(node, "points", &wishes, &subscriber) == HYTHE_EARGUMENT);
    hythe_publisher_close(publisher);
}

static void samples(int trust)
{
    struct hythe_publisher *publisher;
    struct hythe_subscriber *subscriber;
    struct hythe_sample *sample, *part;
    struct hythe_statistics statistics;
    struct hythe_published published;
    struct hythe_lease *lease;
    const void *data;
    char bytes[8];
    EXPECT(hythe_subscriber_open(node, "bytes", NULL, &subscriber) == 0);
    EXPECT(hythe_publisher_open(node, "bytes", NULL, &publisher) == 0);
    EXPECT(hythe_subscriber_try_take(subscriber, &sample) == 0 && sample == NULL);
    published.size = sizeof published;
    EXPECT(hythe_publisher_publish_copy(publisher, "12345678", 8, &published) == 1);
    EXPECT(published.delivered == 1 && published.dropped == 0);
    EXPECT(hythe_subscriber_take(subscriber, HYTHE_SECOND_NS, &sample) == 1);
    EXPECT(hythe_sample_length(sample) == 8);
    EXPECT(hythe_sample_read(sample, 1, bytes, 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_sample_part(sample, 8, 1, &part) == HYTHE_EARGUMENT && part == NULL);
    EXPECT(hythe_sample_part(sample, 2, 3, &part) == 0);
    hythe_sample_release(sample);
    EXPECT(hythe_sample_read(part, 0, bytes, 3) == 0 && memcmp(bytes, "345", 3) == 0);
    EXPECT(hythe_sample_data(part, &data) == (trust ? 0 : HYTHE_ETRUST));
    EXPECT(trust ? memcmp(data, "345", 3) == 0 : data == NULL);
    EXPECT(hythe_publisher_forward_copy(publisher, part, &published) == 1);
    EXPECT(published.delivered == 1 && hythe_sample_length(part) == 3);
    EXPECT(hythe_publisher_forward(publisher, part, NULL) == 1);
    EXPECT(hythe_publisher_forward_copy(publisher, part, NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_node_lease(node, 8, &lease) == 0);
    /* Refused, and released all the same. */
    EXPECT(hythe_publisher_publish(publisher, lease, 1 << 30, NULL) == HYTHE_EARGUMENT);
    statistics.size = sizeof statistics;
    EXPECT(hythe_publisher_statistics(publisher, &statistics) == 0);
    EXPECT(statistics.messages == 3 && statistics.payload_bytes == 14);
    EXPECT(statistics.copies == 1 && statistics.copied_bytes == 3);
    statistics.size = 0;
    EXPECT(hythe_publisher_statistics(publisher, &statistics) == HYTHE_EARGUMENT);
    hythe_publisher_close(publisher);
    hythe_subscriber_close(subscriber);
}

/* A late subscriber gets what was kept; a full one that evicts the oldest has the newest. */
static void policies(void)
{
    struct hythe_publisher_options options;
    struct hythe_subscriber_options wishes;
    struct hythe_publisher *publisher;
    struct hythe_subscriber *subscriber;
    struct hythe_published published;
    struct hythe_sample *sample;
    char byte;
    hythe_publisher_options_init(&options, sizeof options);
    options.history = 1;
    EXPECT(hythe_publisher_open(node, "policies", &options, &publisher) == 0);
    EXPECT(hythe_publisher_publish_copy(publisher, "a", 1, NULL) == 0);
    hythe_subscriber_options_init(&wishes, sizeof wishes);
    wishes.when_full = HYTHE_EVICT_OLDEST;
    wishes.depth = 2;
    wishes.history = 1;
    EXPECT(hythe_subscriber_open(node, "policies", &wishes, &subscriber) == 0);
    EXPECT(hythe_publisher_subscribers(publisher) == 1);
    published.size = sizeof published;
    EXPECT(hythe_publisher_publish_copy(publisher, "b", 1, &published) == 1 &&
           published.evicted == 0);
    EXPECT(hythe_publisher_publish_copy(publisher, "c", 1, &published) == 1 &&
           published.evicted == 1);
    EXPECT(hythe_subscriber_try_take(subscriber, &sample) == 1);
    EXPECT(hythe_sample_read(sample, 0, &byte, 1) == 0 && byte == 'b');
    hythe_sample_release(sample);
    hythe_subscriber_close(subscriber);
    hythe_publisher_close(publisher);
}

/* One wrong message: none goes out, and no lease is left behind. */
static void batches(void)
{
    struct hythe_message batch[3];
    struct hythe_publisher *publisher;
    struct hythe_subscriber *subscriber;
    struct hythe_sample *samples[4];
    struct hythe_published published;
    int i, wrong;
    EXPECT(hythe_subscriber_open(node, "batches", NULL, &subscriber) == 0);
    EXPECT(hythe_publisher_open(node, "batches", NULL, &publisher) == 0);
    EXPECT(hythe_publisher_reaches_all(publisher) == 0);
    EXPECT(hythe_publisher_publish_batch(publisher, NULL, 1, NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_publisher_publish_batch(publisher, NULL, 0, NULL) == 0);
    EXPECT(hythe_publisher_publish_batch(publisher, batch, (size_t)-1, NULL) == HYTHE_EARGUMENT);
    for (wrong = 0; wrong < 4; wrong++) {
        for (i = 0; i < 3; i++) {
            batch[i].bytes = 8;
            EXPECT(hythe_node_lease(node, 8, &batch[i].lease) == 0);
        }
        if (wrong == 1)
            batch[1].bytes = 1 << 30;
        if (wrong == 2) {
            hythe_lease_release(batch[2].lease);
            batch[2].lease = NULL;
        }
        published.size = sizeof published;
        EXPECT(hythe_publisher_publish_batch(wrong == 3 ? NULL : publisher, batch, 3, &published) ==
               (wrong == 0 ? 3 : HYTHE_EARGUMENT));
        for (i = 0; i < 3; i++)
            EXPECT(batch[i].lease == NULL);
    }
    EXPECT(published.delivered == 3 && published.dropped == 0);
    EXPECT(hythe_subscriber_try_take_batch(subscriber, NULL, 1) == HYTHE_EARGUMENT);
    EXPECT(hythe_subscriber_try_take_batch(NULL, samples, 4) == HYTHE_EARGUMENT &&
           samples[0] == NULL);
    EXPECT(hythe_subscriber_try_take_batch(subscriber, samples, 2) == 2);
    hythe_sample_release(samples[0]);
    hythe_sample_release(samples[1]);
    EXPECT(hythe_subscriber_try_take_batch(subscriber, samples, 4) == 1);
    EXPECT(samples[0] != NULL && samples[1] == NULL && samples[3] == NULL);
    hythe_sample_release(samples[0]);
    EXPECT(hythe_subscriber_try_take_batch(subscriber, samples, 4) == 0 && samples[0] == NULL);
    hythe_publisher_close(publisher);
    hythe_subscriber_close(subscriber);
}

static void headroom(void)
{
    struct hythe_lease *lease;
    struct hythe_publisher *publisher;
    struct hythe_subscriber *subscriber;
    struct hythe_sample *sample;
    char bytes[8];
    EXPECT(hythe_subscriber_open(node, "headroom", NULL, &subscriber) == 0);
    EXPECT(hythe_publisher_open(node, "headroom", NULL, &publisher) == 0);
    EXPECT(hythe_publisher_lease(publisher, 8, &lease) == 0);
    EXPECT(hythe_lease_write_headroom(lease, HYTHE_HEADROOM_BYTES - 7, "12345678", 8) ==
           HYTHE_EARGUMENT);
    EXPECT(hythe_lease_write_headroom(lease, (size_t)-1, "12345678", 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_write_headroom(NULL, 0, "12345678", 8) == HYTHE_EARGUMENT);
    EXPECT(hythe_lease_write_headroom(lease, HYTHE_HEADROOM_BYTES - 8, "12345678", 8) == 0);
    EXPECT(hythe_lease_write(lease, 0, "abcdefgh", 8) == 0);
    EXPECT(hythe_publisher_publish(publisher, lease, 8, NULL) == 1);
    EXPECT(hythe_subscriber_try_take(subscriber, &sample) == 1);
    EXPECT(hythe_sample_read_headroom(sample, HYTHE_HEADROOM_BYTES, bytes, 1) == HYTHE_EARGUMENT);
    EXPECT(hythe_sample_read_headroom(sample, HYTHE_HEADROOM_BYTES - 8, bytes, 8) == 0);
    EXPECT(memcmp(bytes, "12345678", 8) == 0);
    EXPECT(hythe_sample_read(sample, 0, bytes, 8) == 0 && memcmp(bytes, "abcdefgh", 8) == 0);
    hythe_sample_release(sample);
    hythe_publisher_close(publisher);
    hythe_subscriber_close(subscriber);
}

static void other_nodes(void)
{
    struct hythe_node *other;
    struct hythe_lease *lease;
    struct hythe_publisher *publisher;
    EXPECT(hythe_node_join(pool, "other", &other) == 0);
    EXPECT(hythe_publisher_open(node, "bytes", NULL, &publisher) == 0);
    EXPECT(hythe_node_lease(other, 8, &lease) == 0);
    EXPECT(hythe_publisher_publish(publisher, lease, 8, NULL) == HYTHE_EARGUMENT);
    EXPECT(strstr(hythe_last_error(), "another node") != NULL);
    hythe_publisher_close(publisher);
    hythe_node_leave(other);
}

static void patterns(void)
{
    struct hythe_client_options options;
    struct hythe_client *client;
    struct hythe_notifier *notifier;
    struct hythe_sample *reply;
    struct hythe_lease *lease;
    struct hythe_server *server;
    struct hythe_request *asked;
    uint64_t request, number;
    hythe_client_options_init(&options, sizeof options);
    options.send_timeout_ns = 1;
    EXPECT(hythe_client_open(node, "nobody", &options, &client) == 0);
    EXPECT(hythe_client_lease(client, 8, &lease) == 0);
    EXPECT(hythe_client_request(client, lease, 8, &request) == HYTHE_ENOSERVER);
    EXPECT(hythe_client_wait(client, 77, 0, &reply) == HYTHE_ENOTPENDING && reply == NULL);
    EXPECT(hythe_client_take(client, 0, &request, &reply) == 0 && request == 0);
    /* The server may be closed before the reply is leased. */
    options.send_timeout_ns = HYTHE_SECOND_NS;
    hythe_client_close(client);
    EXPECT(hythe_client_open(node, "somebody", &options, &client) == 0);
    EXPECT(hythe_server_open(node, "somebody", NULL, &server) == 0);
    EXPECT(hythe_client_lease(client, 8, &lease) == 0);
    EXPECT(hythe_client_request(client, lease, 8, &number) == 0);
    EXPECT(hythe_server_try_take(server, &asked) == 1);
    EXPECT(hythe_request_client(asked) == hythe_node_index(node));
    EXPECT(hythe_request_client(NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_request_lease(NULL, 8, &lease) == HYTHE_EARGUMENT && lease == NULL);
    EXPECT(hythe_request_lease(asked, 8, &lease) == 0);
    EXPECT(hythe_request_reply(asked, lease, 8) == 1);
    EXPECT(hythe_client_wait(client, number, HYTHE_SECOND_NS, &reply) == 1);
    hythe_sample_release(reply);
    hythe_server_close(server);
    hythe_client_close(client);
    EXPECT(hythe_request_reply_in_kind(NULL) == HYTHE_EARGUMENT);
    EXPECT(hythe_request_sample(NULL) == NULL);
    EXPECT(hythe_notifier_open(node, "bells", &notifier) == 0);
    EXPECT(hythe_notifier_notify(notifier, 0) == HYTHE_EARGUMENT);
    EXPECT(hythe_notifier_notify(notifier, (uint64_t)1 << HYTHE_EVENTS_MAX) == HYTHE_EARGUMENT);
    EXPECT(hythe_notifier_notify(notifier, HYTHE_EVENT(0)) == 0);
    hythe_notifier_close(notifier);
}

/* More is ready than there are places: the others come next. */
static void waits(void)
{
    struct hythe_wait_set *wait_set, *second;
    struct hythe_listener *listeners[3];
    struct hythe_notifier *notifier;
    struct hythe_ready ready;
    uint64_t seen = 0;
    int i;
    EXPECT(hythe_wait_set_open(NULL, &wait_set) == HYTHE_EARGUMENT && wait_set == NULL);
    EXPECT(hythe_wait_set_open(node, &wait_set) == 0);
    EXPECT(hythe_wait_set_open(node, &second) == 0);
    EXPECT(hythe_notifier_open(node, "waits", &notifier) == 0);
    for (i = 0; i < 3; i++) {
        EXPECT(hythe_listener_open(node, "waits", &listeners[i]) == 0);
        EXPECT(hythe_wait_set_attach_listener(wait_set, listeners[i], (uint64_t)1 << i) == 0);
    }
    EXPECT(hythe_wait_set_attach_listener(second, listeners[0], 0) == HYTHE_EATTACHED);
    EXPECT(hythe_wait_set_attach_listener(wait_set, NULL, 0) == HYTHE_EARGUMENT);
    EXPECT(hythe_wait_set_attach_fd(wait_set, -1, HYTHE_READABLE, 0) == HYTHE_EARGUMENT);
    EXPECT(hythe_wait_set_attach_fd(wait_set, 1000, HYTHE_READABLE, 0) == HYTHE_EWAITSET);
    EXPECT(hythe_wait_set_attach_fd(wait_set, 0, HYTHE_CLOSED, 0) == HYTHE_EARGUMENT);
    EXPECT(hythe_wait_set_wait(wait_set, 0, &ready, 1) == 0);
    EXPECT(hythe_wait_set_wait(wait_set, 0, NULL, 1) == HYTHE_EARGUMENT);
    EXPECT(hythe_wait_set_wait(wait_set, 0, &ready, 0) == HYTHE_EARGUMENT);
    EXPECT(hythe_notifier_notify(notifier, HYTHE_EVENT(1)) == 3);
    for (i = 0; i < 3; i++) {
        EXPECT(hythe_wait_set_wait(wait_set, HYTHE_SECOND_NS, &ready, 1) == 1);
        EXPECT(ready.how == HYTHE_READABLE);
        seen |= ready.key;
    }
    EXPECT(seen == 7);
    EXPECT(hythe_wait_set_detach(wait_set, 1) == 1);
    EXPECT(hythe_wait_set_detach(wait_set, 1) == 0);
    EXPECT(hythe_wait_set_attach_listener(second, listeners[0], 5) == 0);
    EXPECT(hythe_wait_set_wait(second, HYTHE_SECOND_NS, &ready, 1) == 1 && ready.key == 5);
    for (i = 0; i < 3; i++)
        hythe_listener_close(listeners[i]);
    EXPECT(hythe_wait_set_wait(wait_set, 0, &ready, 1) == 0);
    hythe_notifier_close(notifier);
    hythe_wait_set_close(second);
    hythe_wait_set_close(wait_set);
}

/* A child has copies of handles: calls refuse them, closing them does nothing to the parent. */
static void forked(void)
{
    struct hythe_lease *lease;
    int status;
    pid_t child;
    EXPECT(hythe_node_lease(node, 8, &lease) == 0);
    child = fork();
    if (child == 0) {
        if (hythe_lease_write(lease, 0, "x", 1) != HYTHE_EFORKED ||
            hythe_node_index(node) != HYTHE_EFORKED)
            _exit(1);
        hythe_lease_release(lease);
        leave();
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(hythe_lease_write(lease, 0, "x", 1) == 0);
    hythe_lease_release(lease);
}

int main(void)
{
    int trust;
    EXPECT(strcmp(hythe_strerror(-12345), "unknown code") == 0);
    for (trust = 0; trust <= 1; trust++) {
        make(trust);
        pools();
        buffers();
        stale();
        channels();
        samples(trust);
        policies();
        missed();
        batches();
        headroom();
        other_nodes();
        patterns();
        waits();
        forked();
        leave();
    }
    printf("all refused\n");
    return 0;
}
