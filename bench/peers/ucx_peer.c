/*
 * Ping-pong over UCX, by tagged messages and a worker of one thread, as its own ucx_perftest does.
 *
 * The peer "ucx" of `hythe bench host`, which compiles it and starts both sides. They exchange the
 * addresses of their workers over a TCP connection, which stays open until both are done.
 *
 * Usage: ucx_peer answer ADDRESS SIZE CPU
 *        ucx_peer measure ADDRESS PORT SIZE COUNT SECONDS CPU
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "exchange.h"

enum {
    TAG = 1,
    ADDRESS_BYTES_MAX = 64 << 10
};

static ucp_worker_h worker;
static ucp_ep_h other;
static unsigned char *buffer;
static size_t bytes;

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
        exit(EXIT_FAILURE);
    }
}

/* Polls until it is done. */
static void finish(ucs_status_ptr_t request, const char *what)
{
    if (request == NULL) {
        return;
    }
    if (UCS_PTR_IS_ERR(request)) {
        must(UCS_PTR_STATUS(request), what);
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    must(ucp_request_check_status(request), what);
    ucp_request_free(request);
}

static void put_bytes(size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    finish(ucp_tag_send_nbx(other, buffer, length, TAG, &param), "send");
}

static void put(uint64_t number)
{
    fill(buffer, bytes, number);
    put_bytes(bytes);
}

/* 0: the other side has finished. */
static int take(uint64_t number)
{
    ucp_tag_recv_info_t found = {.length = 0};
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
        .recv_info.tag_info = &found,
    };
    ucs_status_ptr_t request = ucp_tag_recv_nbx(worker, buffer, bytes, TAG, ~UINT64_C(0), &param);

    if (request == NULL) {
        /* Done at once: `found` has been filled. */
    } else if (UCS_PTR_IS_ERR(request)) {
        must(UCS_PTR_STATUS(request), "receive");
    } else {
        ucs_status_t status;

        while ((status = ucp_tag_recv_request_test(request, &found)) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        must(status, "receive");
        ucp_request_free(request);
    }
    if (found.length == 0) {
        return 0;
    }
    if (found.length != bytes) {
        fail("a message is too short");
    }
    check(buffer, bytes, number);
    return 1;
}

static void there_and_back(uint64_t number)
{
    put(number);
    if (!take(number)) {
        fail("the other side has finished");
    }
}

static void answer(void)
{
    uint64_t number;

    for (number = 0; take(number); number++) {
        put(number);
    }
}

static void write_all(int file, const void *from, size_t length)
{
    const char *at = from;

    while (length > 0) {
        const ssize_t written = write(file, at, length);

        if (written <= 0) {
            fail("the connection of both sides is lost");
        }
        at += written;
        length -= (size_t)written;
    }
}

static void read_all(int file, void *into, size_t length)
{
    char *at = into;

    while (length > 0) {
        const ssize_t got = read(file, at, length);

        if (got <= 0) {
            fail("the connection of both sides is lost");
        }
        at += got;
        length -= (size_t)got;
    }
}

/* The worker, and an endpoint for that of the other side. */
static ucp_context_h open_worker(int connection)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_TAG,
    };
    const ucp_worker_params_t of_worker = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_ep_params_t of_endpoint = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_context_h context;
    ucp_config_t *config;
    ucp_address_t *own;
    void *theirs;
    size_t length;
    uint64_t told;

    must(ucp_config_read(NULL, NULL, &config), "configuration");
    must(ucp_init(&params, config, &context), "context");
    ucp_config_release(config);
    must(ucp_worker_create(context, &of_worker, &worker), "worker");
    must(ucp_worker_get_address(worker, &own, &length), "address");
    told = length;
    write_all(connection, &told, sizeof told);
    write_all(connection, own, length);
    ucp_worker_release_address(worker, own);
    read_all(connection, &told, sizeof told);
    theirs = told <= ADDRESS_BYTES_MAX ? malloc((size_t)told) : NULL;
    if (theirs == NULL) {
        fail("the other side's address is too long");
    }
    read_all(connection, theirs, (size_t)told);
    of_endpoint.address = theirs;
    must(ucp_ep_create(worker, &of_endpoint, &other), "endpoint");
    free(theirs);
    return context;
}

/* Both sides have all that was sent before either is gone. */
static void close_worker(ucp_context_h context, int connection)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    char done = 1;

    finish(ucp_ep_flush_nbx(other, &param), "flush");
    write_all(connection, &done, sizeof done);
    read_all(connection, &done, sizeof done);
    finish(ucp_ep_close_nbx(other, &param), "close");
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

static struct sockaddr_in place(const char *ip, unsigned long port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    address.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) {
        fail("no address of IPv4");
    }
    return address;
}

/* Says the port, and waits for the side that measures. */
static int accept_other(const char *ip)
{
    struct sockaddr_in address = place(ip, 0);
    socklen_t length = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    int connection;

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        fail("cannot listen");
    }
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    connection = accept(listener, NULL, NULL);
    if (connection < 0) {
        fail("nobody connects");
    }
    close(listener);
    return connection;
}

static int connect_other(const char *ip, const char *port)
{
    const struct sockaddr_in address = place(ip, strtoul(port, NULL, 10));
    const int connection = socket(AF_INET, SOCK_STREAM, 0);

    if (connection < 0 ||
        connect(connection, (const struct sockaddr *)&address, sizeof address) != 0) {
        fail("cannot connect");
    }
    return connection;
}

static unsigned char *buffer_of(size_t size)
{
    /* At least one byte: an empty message ends the exchange. */
    unsigned char *made = calloc(size + 1, 1);

    if (made == NULL) {
        fail("not so many bytes");
    }
    return made;
}

int main(int argc, char **argv)
{
    const int measures = argc == 8 && strcmp(argv[1], "measure") == 0;
    ucp_context_h context;
    int connection;

    if (!measures && !(argc == 5 && strcmp(argv[1], "answer") == 0)) {
        fail("usage: ucx_peer answer ADDRESS SIZE CPU\n"
             "       ucx_peer measure ADDRESS PORT SIZE COUNT SECONDS CPU");
    }
    pin(atoi(argv[argc - 1]));
    bytes = strtoul(argv[measures ? 4 : 3], NULL, 10);
    buffer = buffer_of(bytes);
    connection = measures ? connect_other(argv[2], argv[3]) : accept_other(argv[2]);
    context = open_worker(connection);
    if (measures) {
        const struct plan plan = {
            .size = bytes,
            .count = strtoul(argv[5], NULL, 10),
            .seconds = strtod(argv[6], NULL),
        };

        measure(&plan, round_trip_ns);
        put_bytes(0);
    } else {
        answer();
    }
    close_worker(context, connection);
    free(buffer);
    return 0;
}
