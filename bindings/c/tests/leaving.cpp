/*
 * Methods that do not return, and what fails when the program ends. Started by programs.rs.
 *
 *   leaving exception   a method throws what its server catches
 *   leaving longjmp     a method jumps back to its server
 *   leaving thread      a function that is notified of messages ends its thread
 *   leaving uncaught    it throws, and the program ends
 *
 * Prints a line when all callers of such methods, more than can be outstanding, have had their
 * error, and a later call its answer; or when all messages were notified; and at exit what a call
 * in a static destructor fails with.
 */
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <hythe.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdexcept>
#include <string>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, hythe_last_error());   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (false)

namespace
{

const std::uint64_t LONG_NS = 60 * HYTHE_SECOND_NS;
const std::uint32_t LEAVES = 1;
const std::uint32_t ANSWERS = 2;
const int ROUNDS = 40;

std::jmp_buf start;
bool jumps;

struct AtExit {
    ~AtExit()
    {
        if (hythe_node_join(nullptr, "nobody", nullptr) < 0) {
            std::printf("at exit: %s\n", hythe_last_error());
        }
    }
} at_exit;

int leaves(void *, const hythe_rpc_request *, hythe_rpc_reply *)
{
    if (jumps) {
        std::longjmp(start, 1);
    }
    throw std::runtime_error("no such parameter");
}

int answers(void *, const hythe_rpc_request *, hythe_rpc_reply *reply)
{
    std::memcpy(reply->result, "yes", 3);
    reply->bytes = 3;
    return 0;
}

hythe_node *join(const char *name)
{
    hythe_pool_options options;
    hythe_pool *pool = nullptr;
    hythe_node *node = nullptr;

    hythe_pool_options_init(&options, sizeof options);
    options.name = "leaving";
    EXPECT(hythe_pool_open_or_create(&options, &pool) == 0);
    EXPECT(hythe_node_join(pool, name, &node) == 0);
    hythe_pool_close(pool);
    return node;
}

/* True: the method of the next call was left. */
bool serve(hythe_server *server, const hythe_rpc_method *table)
{
    if (setjmp(start) != 0) {
        return true;
    }
    try {
        EXPECT(hythe_rpc_serve(server, table, 2, LONG_NS) == 1);
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

void call(hythe_client *client, hythe_server *server, const hythe_rpc_method *table,
          std::uint32_t method)
{
    std::uint64_t number = 0;
    std::size_t detail = 0;
    hythe_sample *result = nullptr;

    EXPECT(hythe_rpc_begin(client, method, "x", 1, LONG_NS, &number) == 0);
    EXPECT(serve(server, table) == (method == LEAVES));
    if (jumps) {
        /* Nothing runs in a jump: the call ends with the next one on the server. */
        EXPECT(hythe_rpc_serve(server, table, 2, 0) == 0);
    }
    if (method == LEAVES) {
        EXPECT(hythe_rpc_wait(client, number, LONG_NS, &result, &detail) == HYTHE_EUNANSWERED);
    } else {
        EXPECT(hythe_rpc_wait(client, number, LONG_NS, &result, &detail) == 1);
        EXPECT(hythe_sample_length(result) == 3);
        hythe_sample_release(result);
    }
}

int leave_methods(bool by_jump)
{
    hythe_node *asks = join("asks");
    hythe_node *serves = join("serves");
    hythe_server *server = nullptr;
    hythe_client *client = nullptr;
    hythe_rpc_method table[2] = {};

    jumps = by_jump;
    table[0].method = LEAVES;
    table[0].serve = leaves;
    table[1].method = ANSWERS;
    table[1].result_bytes = 3;
    table[1].serve = answers;
    EXPECT(HYTHE_EVENT(40) == std::uint64_t{1} << 40);
    EXPECT(hythe_server_open(serves, "methods", nullptr, &server) == 0);
    EXPECT(hythe_client_open(asks, "methods", nullptr, &client) == 0);
    EXPECT(hythe_client_wait_for_servers(client, 1, LONG_NS) == 1);
    for (int i = 0; i < ROUNDS; i++) {
        call(client, server, table, LEAVES);
    }
    call(client, server, table, ANSWERS);
    std::printf("%d ended, 1 answered\n", ROUNDS);
    hythe_client_close(client);
    hythe_server_close(server);
    hythe_node_leave(asks);
    hythe_node_leave(serves);
    return 0;
}

std::atomic<int> notified{0};

void ends_thread(union sigval)
{
    notified++;
    pthread_exit(nullptr);
}

void throws(union sigval)
{
    throw std::runtime_error("no such message");
}

int notify(void (*function)(union sigval))
{
    const mq_attr *usual = nullptr;
    const hythe_mqd_t queue = hythe_mq_open("/leaving", O_CREAT | O_RDWR, 0600u, usual);
    struct sigevent event = {};
    char message[8192];

    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = function;
    EXPECT(queue >= 0);
    for (int i = 1; i <= 2; i++) {
        EXPECT(hythe_mq_notify(queue, &event) == 0);
        EXPECT(hythe_mq_send(queue, "x", 1, 0) == 0);
        while (notified < i) {
            sched_yield();
        }
        EXPECT(hythe_mq_receive(queue, message, sizeof message, nullptr) == 1);
    }
    std::printf("2 notified\n");
    return 0;
}

} // namespace

int main(int count, char **arguments)
{
    const std::string way = count > 1 ? arguments[1] : "";

    if (way == "thread" || way == "uncaught") {
        return notify(way == "thread" ? ends_thread : throws);
    }
    return leave_methods(way == "longjmp");
}
