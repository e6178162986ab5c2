/*
 * The posix and bare ports: a core in a thread of its own, and a main loop without any operating
 * system.
 */
#define _POSIX_C_SOURCE 200809L

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hythe_bare.h"
#include "hythe_posix.h"
#include "test.h"
#include "world.h"

enum {
    ROUNDS = 2000,
    TASKS = 2
};

/* ---- posix: two echo threads over one link, Linux in the test's thread ---- */

struct echo {
    struct hythe_link *link;
    uint32_t from;
    uint32_t to;
    uint32_t echoed;
};

static void *echo_run(void *argument)
{
    struct echo *echo = argument;
    struct hythe_buffer buffer;
    int idle = 0;

    while (echo->echoed < ROUNDS && idle < 100) {
        int result = hythe_receive(hythe_link_endpoint(echo->link, echo->from), &buffer, 100);
        idle = result == HYTHE_OK ? 0 : idle + 1;
        if (result != HYTHE_OK) {
            continue;
        }
        buffer.data[0]++;
        if (hythe_forward(&buffer, hythe_link_endpoint(echo->link, echo->to), 1000) == HYTHE_OK) {
            echo->echoed++;
        }
    }
    return NULL;
}

/* Waits for the core's ring, with a bound, and drains it. */
static void wait_for_bell(int doorbell)
{
    struct pollfd bell = {.fd = doorbell, .events = POLLIN};
    char bytes[64];

    if (poll(&bell, 1, 100) > 0) {
        CHECK(recv(doorbell, bytes, sizeof bytes, MSG_DONTWAIT) > 0);
    }
}

static int take_or_wait(struct world *world, int doorbell, uint32_t endpoint,
                        struct descriptor *got)
{
    int tries;

    for (tries = 0; tries < 100; tries++) {
        if (linux_take(&world->side, endpoint, got)) {
            return 1;
        }
        wait_for_bell(doorbell);
    }
    return 0;
}

static void one_round(struct world *world, int doorbell, uint32_t round)
{
    struct descriptor sent[TASKS];
    struct descriptor got;
    uint32_t task;

    for (task = 0; task < TASKS; task++) {
        sent[task] =
            linux_slot(&world->side, 0, (round + task * 16) % WORLD_SLOTS, round % 3000 + 1);
        world->region_memory[linux_slot_offset(&world->side, sent[task].place) + 256] =
            (uint8_t)round;
        linux_push(&world->side, task == 0 ? IN : IN2, sent[task]);
        CHECK_EQUAL(send(doorbell, "!", 1, MSG_NOSIGNAL), 1);
    }
    for (task = 0; task < TASKS && test_sum.broken_checks == 0; task++) {
        CHECK(take_or_wait(world, doorbell, task == 0 ? OUT : OUT2, &got));
        CHECK_EQUAL(got.place, sent[task].place);
        CHECK_EQUAL(got.length, sent[task].length);
        CHECK_EQUAL(world->region_memory[linux_slot_offset(&world->side, got.place) + 256],
                    (uint8_t)(round + 1));
        CHECK(take_or_wait(world, doorbell, task == 0 ? IN : IN2, &got));
        CHECK_EQUAL(got.length, LINUX_CREDIT);
    }
}

static void two_threads_echo_over_the_posix_port(void)
{
    struct world world;
    struct hythe_posix posix;
    struct echo echo[TASKS];
    pthread_t thread[TASKS];
    int sockets[2];
    uint32_t i;

    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    world_make(&world);
    CHECK_EQUAL(hythe_posix_start(&posix, sockets[0], &world.port), 0);
    linux_publish(&world.side);
    CHECK_EQUAL(hythe_link_start(&world.link, &world.config), HYTHE_OK);
    for (i = 0; i < WORLD_ENDPOINTS; i++) {
        world_attach(&world, i);
    }
    for (i = 0; i < TASKS; i++) {
        echo[i] = (struct echo){&world.link, i == 0 ? IN : IN2, i == 0 ? OUT : OUT2, 0};
        CHECK_EQUAL(pthread_create(&thread[i], NULL, echo_run, &echo[i]), 0);
    }
    for (i = 0; i < ROUNDS && test_sum.broken_checks == 0; i++) {
        one_round(&world, sockets[1], i);
    }
    for (i = 0; i < TASKS; i++) {
        CHECK_EQUAL(pthread_join(thread[i], NULL), 0);
        CHECK_EQUAL(echo[i].echoed, ROUNDS);
    }
    CHECK_EQUAL(pthread_mutex_destroy(&posix.mutex), 0);
    close(sockets[0]);
    close(sockets[1]);
    world_free(&world);
}

static void a_posix_wait_ends_with_the_time_or_the_bell(void)
{
    struct hythe_posix posix;
    struct hythe_port port;
    int sockets[2];
    uint32_t before;

    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    CHECK_EQUAL(hythe_posix_start(&posix, sockets[0], &port), 0);
    before = port.now_ms(port.context);
    port.wait(port.context, 20);
    CHECK(port.now_ms(port.context) - before >= 19);
    CHECK_EQUAL(send(sockets[1], "!!!", 3, 0), 3);
    port.wait(port.context, 60000);
    port.ring(port.context);
    wait_for_bell(sockets[1]);
    /* A bell nobody reads, and one whose reader has gone, neither block nor kill. */
    for (before = 0; before < 100000; before++) {
        port.ring(port.context);
    }
    close(sockets[1]);
    port.ring(port.context);
    close(sockets[0]);
    CHECK_EQUAL(pthread_mutex_destroy(&posix.mutex), 0);
}

/* ---- bare ---- */

struct bare_board {
    struct hythe_bare bare;
    uint32_t now_ms;
    uint32_t rings;
    uint32_t bell_at_ms;
};

static void board_ring(void *context)
{
    ((struct bare_board *)context)->rings++;
}

static uint32_t board_now(void *context)
{
    return ((struct bare_board *)context)->now_ms;
}

/* One interrupt per millisecond, and the doorbell at its time. */
static void board_idle(void *context)
{
    struct bare_board *board = context;

    board->now_ms++;
    if (board->now_ms == board->bell_at_ms) {
        hythe_bare_bell(&board->bare);
    }
}

static void a_bare_wait_ends_with_the_time_or_the_bell(void)
{
    struct bare_board board;
    struct hythe_bare_board functions = {&board, board_ring, board_now, board_idle};
    struct hythe_port port;

    memset(&board, 0, sizeof board);
    board.now_ms = 0xFFFFFFF0u;
    board.bell_at_ms = 500;
    hythe_bare_start(&board.bare, &functions, &port);
    port.wait(port.context, 30);
    CHECK_EQUAL(board.now_ms, 14);
    board.bell_at_ms = 20;
    port.wait(port.context, 1000);
    CHECK_EQUAL(board.now_ms, 20);
    /* A bell between two waits ends the next one at once, and only that one. */
    hythe_bare_bell(&board.bare);
    port.wait(port.context, 1000);
    CHECK_EQUAL(board.now_ms, 20);
    port.wait(port.context, 5);
    CHECK_EQUAL(board.now_ms, 25);
    port.ring(port.context);
    CHECK_EQUAL(board.rings, 1);
    CHECK_EQUAL(port.now_ms(port.context), 25);
}

void test_ports(void)
{
    RUN(two_threads_echo_over_the_posix_port);
    RUN(a_posix_wait_ends_with_the_time_or_the_bell);
    RUN(a_bare_wait_ends_with_the_time_or_the_bell);
}
