/*
 * Ping-pong over PVM 3.4: raw data, and the direct route between tasks (TCP).
 *
 * The peer "pvm" of `hythe bench host`, which compiles and starts it. The task that is started
 * measures; it spawns the other, which answers until an empty message comes.
 *
 * Usage: pvm_peer ping HOST SIZE COUNT SECONDS CPU CPU_OF_THE_OTHER
 *        pvm_peer hosts       prints how many hosts the virtual machine has
 *        pvm_peer halt        ends it
 *        pvm_peer echo SIZE CPU   (spawned)
 */
#define _GNU_SOURCE

#include <pvm3.h>

#include "exchange.h"

enum {
    TAG = 1
};

static unsigned char *buffer;
static int bytes, other;

static void checked(int code, const char *what)
{
    if (code < 0) {
        pvm_perror((char *)what);
        pvm_exit();
        exit(EXIT_FAILURE);
    }
}

static void put(int length)
{
    checked(pvm_initsend(PvmDataRaw), "pvm_initsend");
    checked(pvm_pkbyte((char *)buffer, length, 1), "pvm_pkbyte");
    checked(pvm_send(other, TAG), "pvm_send");
}

/* 0: the other task has finished. */
static int take(uint64_t number)
{
    int id = pvm_recv(other, TAG), length = 0, tag = 0, from = 0;

    checked(id, "pvm_recv");
    checked(pvm_bufinfo(id, &length, &tag, &from), "pvm_bufinfo");
    if (length == 0) {
        return 0;
    }
    checked(pvm_upkbyte((char *)buffer, bytes, 1), "pvm_upkbyte");
    check(buffer, (size_t)bytes, number);
    return 1;
}

static void there_and_back(uint64_t number)
{
    fill(buffer, (size_t)bytes, number);
    put(bytes);
    if (!take(number)) {
        fail("the other task has finished");
    }
}

static void answer(void)
{
    uint64_t number;

    other = pvm_parent();
    for (number = 0; take(number); number++) {
        fill(buffer, (size_t)bytes, number);
        put(bytes);
    }
}

static void ping(char **argv)
{
    const struct plan plan = {strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10),
                              strtod(argv[5], NULL)};
    char *words[] = {"echo", argv[3], argv[7], NULL};

    if (pvm_spawn(argv[0], words, PvmTaskHost, argv[2], 1, &other) != 1) {
        checked(other, "pvm_spawn");
    }
    pin(atoi(argv[6]));
    measure(&plan);
    put(0);
}

static void set_up(const char *size)
{
    bytes = atoi(size);
    buffer = malloc((size_t)bytes);
    if (buffer == NULL) {
        fail("not so many bytes");
    }
    checked(pvm_mytid(), "pvm_mytid");
    checked(pvm_setopt(PvmRoute, PvmRouteDirect), "pvm_setopt");
}

static void print_hosts(void)
{
    struct pvmhostinfo *hosts;
    int count = 0, architectures = 0;

    checked(pvm_config(&count, &architectures, &hosts), "pvm_config");
    printf("%d\n", count);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "hosts") == 0) {
        print_hosts();
    } else if (argc == 2 && strcmp(argv[1], "halt") == 0) {
        return pvm_halt() < 0;
    } else if (argc == 8 && strcmp(argv[1], "ping") == 0) {
        set_up(argv[3]);
        ping(argv);
    } else if (argc == 4 && strcmp(argv[1], "echo") == 0) {
        set_up(argv[2]);
        pin(atoi(argv[3]));
        answer();
    } else {
        fail("usage: pvm_peer ping HOST SIZE COUNT SECONDS CPU CPU_OF_THE_OTHER");
    }
    pvm_exit();
    return 0;
}
