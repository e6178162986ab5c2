/*
 * What PVM 3.4 takes: messages there and back, packing, spawning, groups.
 *
 * The peer of `hythe bench host` and `pvm`, which compile and start it. The task that is started
 * measures; it spawns the others, from the same file.
 *
 * ROUTE is `direct` (tasks are connected with each other) or `daemon`; ENCODING is `raw` (bytes),
 * `default` (integers, in XDR) or `inplace` (bytes, read from where they are when they are sent).
 * PLAN is SIZE COUNT SECONDS; a CPU of -1: wherever the system likes. Times are printed, a line
 * each.
 *
 * Usage: pvm_peer ping ROUTE ENCODING PLAN HOST CPU CPU_OF_THE_OTHER
 *        pvm_peer pack|unpack ENCODING PLAN CPU
 *        pvm_peer spawn PLAN HOST CPU CPU_OF_THE_OTHER
 *        pvm_peer barrier|reduce TASKS PLAN HOST,HOST CPU CPU_OF_THE_OTHER
 *        pvm_peer hosts       prints how many hosts the virtual machine has
 *        pvm_peer elsewhere   prints how many tasks run on the other hosts
 *        pvm_peer halt        ends it
 *        pvm_peer echo ROUTE ENCODING SIZE CPU                (spawned)
 *        pvm_peer start CPU                                   (spawned)
 *        pvm_peer member OPERATION GROUP TASKS SIZE CPU       (spawned)
 */
#define _GNU_SOURCE

#include <pvm3.h>

#include "exchange.h"

enum {
    TAG = 1,
    TAG_REDUCE = 2,
    TASKS_MAX = 64,
    /* Operations of a group for each sample: members are not called for each of them. */
    BATCH = 10
};

static unsigned char *buffer;
static int bytes, other, encoding, own_tid;

/* Of a group. */
static char group[64];
static int members[TASKS_MAX], tasks, is_reduce;
static double *parts;

/* Of spawned tasks. */
static char *own_file, *other_host, *other_cpu;

static void checked(int code, const char *what)
{
    if (code < 0) {
        pvm_perror((char *)what);
        pvm_exit();
        exit(EXIT_FAILURE);
    }
}

static void pack(int length)
{
    checked(pvm_initsend(encoding), "pvm_initsend");
    if (encoding == PvmDataDefault) {
        checked(pvm_pkint((int *)(void *)buffer, length / (int)sizeof(int), 1), "pvm_pkint");
    } else {
        checked(pvm_pkbyte((char *)buffer, length, 1), "pvm_pkbyte");
    }
}

static void unpack(void)
{
    if (encoding == PvmDataDefault) {
        checked(pvm_upkint((int *)(void *)buffer, bytes / (int)sizeof(int), 1), "pvm_upkint");
    } else {
        checked(pvm_upkbyte((char *)buffer, bytes, 1), "pvm_upkbyte");
    }
}

static void put(int to, int length)
{
    pack(length);
    checked(pvm_send(to, TAG), "pvm_send");
}

/* How long the next message of that task is. */
static int next_length(int of)
{
    int id = pvm_recv(of, TAG), length = 0, tag = 0, from = 0;

    checked(id, "pvm_recv");
    checked(pvm_bufinfo(id, &length, &tag, &from), "pvm_bufinfo");
    return length;
}

/* 0: the other task has finished. */
static int take(uint64_t number)
{
    if (next_length(other) == 0) {
        return 0;
    }
    unpack();
    check(buffer, (size_t)bytes, number);
    return 1;
}

static void there_and_back(uint64_t number)
{
    fill(buffer, (size_t)bytes, number);
    put(other, bytes);
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
        put(other, bytes);
    }
}

static uint64_t pack_ns(uint64_t number)
{
    uint64_t start;

    fill(buffer, (size_t)bytes, number);
    start = now_ns();
    pack(bytes);
    return now_ns() - start;
}

/* A message to oneself: what is received is what came from elsewhere. */
static uint64_t unpack_ns(uint64_t number)
{
    uint64_t start, spent;

    fill(buffer, (size_t)bytes, number);
    put(own_tid, bytes);
    checked(pvm_recv(own_tid, TAG), "pvm_recv");
    memset(buffer, 0, (size_t)bytes);
    start = now_ns();
    unpack();
    spent = now_ns() - start;
    check(buffer, (size_t)bytes, number);
    return spent;
}

static int spawn(char **words, const char *host)
{
    int tid = 0;

    if (pvm_spawn(own_file, words, PvmTaskHost, (char *)host, 1, &tid) != 1) {
        checked(tid, "pvm_spawn");
    }
    return tid;
}

/* Until the task that was spawned has said so itself. */
static uint64_t spawn_ns(uint64_t number)
{
    char *words[] = {"start", other_cpu, NULL};
    const uint64_t start = now_ns();

    (void)number;
    next_length(spawn(words, other_host));
    return now_ns() - start;
}

static void begin_all(void)
{
    checked(pvm_initsend(PvmDataRaw), "pvm_initsend");
    checked(pvm_pkbyte("", 1, 1), "pvm_pkbyte");
    checked(pvm_mcast(members, tasks - 1, TAG), "pvm_mcast");
}

/* So that each has the sum: reduced to one task, and sent to all others by it. */
static void reduce(void)
{
    const int elements = bytes / (int)sizeof *parts;
    int element;

    for (element = 0; element < elements; element++) {
        parts[element] = 1.0;
    }
    checked(pvm_reduce(PvmSum, parts, elements, PVM_DOUBLE, TAG_REDUCE, group, 0), "pvm_reduce");
    if (other == 0) {
        checked(pvm_initsend(PvmDataRaw), "pvm_initsend");
        checked(pvm_pkdouble(parts, elements, 1), "pvm_pkdouble");
        checked(pvm_mcast(members, tasks - 1, TAG_REDUCE), "pvm_mcast");
    } else {
        checked(pvm_recv(other, TAG_REDUCE), "pvm_recv");
        checked(pvm_upkdouble(parts, elements, 1), "pvm_upkdouble");
    }
    if (parts[elements - 1] != tasks) {
        fail("the sum of a group is wrong");
    }
}

/* One batch, by one member. */
static void operate(void)
{
    int operation;

    for (operation = 0; operation < BATCH; operation++) {
        if (is_reduce) {
            reduce();
        } else {
            checked(pvm_barrier(group, tasks), "pvm_barrier");
        }
    }
}

/* All members begin; an operation of a batch. */
static uint64_t operation_ns(uint64_t number)
{
    uint64_t start;

    (void)number;
    begin_all();
    start = now_ns();
    operate();
    return (now_ns() - start) / BATCH;
}

static void member(void)
{
    while (next_length(other) != 0) {
        operate();
    }
}

static void join(const char *operation, const char *number)
{
    is_reduce = strcmp(operation, "reduce") == 0;
    tasks = atoi(number);
    if (tasks < 2 || tasks > TASKS_MAX) {
        fail("so many tasks are not possible");
    }
    if (bytes < (int)sizeof *parts) {
        fail("a group needs 8 bytes at least");
    }
    parts = calloc((size_t)bytes / sizeof *parts + 1, sizeof *parts);
    if (parts == NULL) {
        fail("not so many bytes");
    }
    checked(pvm_joingroup(group), "pvm_joingroup");
}

/* Each second task on the second host. */
static void lead(char **argv, const struct plan *plan)
{
    char *second = strchr(argv[6], ',');
    int task;

    if (second == NULL) {
        fail("two hosts are wanted");
    }
    *second++ = '\0';
    snprintf(group, sizeof group, "hythe-peer-%x", (unsigned)own_tid);
    join(argv[1], argv[2]);
    for (task = 1; task < tasks; task++) {
        const int is_second = task % 2 == 1;
        char *words[] = {"member", argv[1], group, argv[2], argv[3], argv[is_second ? 8 : 7], NULL};

        members[task - 1] = spawn(words, is_second ? second : argv[6]);
    }
    checked(pvm_freezegroup(group, tasks), "pvm_freezegroup");
    measure(plan, operation_ns);
    for (task = 1; task < tasks; task++) {
        put(members[task - 1], 0);
    }
    pvm_lvgroup(group);
}

static void print_hosts(void)
{
    struct pvmhostinfo *hosts;
    int count = 0, architectures = 0;

    checked(pvm_config(&count, &architectures, &hosts), "pvm_config");
    printf("%d\n", count);
}

static void print_tasks_elsewhere(void)
{
    struct pvmtaskinfo *infos;
    int count = 0, elsewhere = 0, index, own_host;

    own_host = pvm_tidtohost(pvm_mytid());
    checked(pvm_tasks(0, &count, &infos), "pvm_tasks");
    for (index = 0; index < count; index++) {
        elsewhere += infos[index].ti_host != own_host;
    }
    printf("%d\n", elsewhere);
}

static void set_up(const char *route, const char *packing, const char *size, const char *cpu)
{
    const int is_daemon = strcmp(route, "daemon") == 0;

    bytes = atoi(size);
    buffer = malloc((size_t)bytes + 1);
    if (buffer == NULL) {
        fail("not so many bytes");
    }
    encoding = strcmp(packing, "default") == 0   ? PvmDataDefault
               : strcmp(packing, "inplace") == 0 ? PvmDataInPlace
                                                 : PvmDataRaw;
    own_tid = pvm_mytid();
    checked(own_tid, "pvm_mytid");
    checked(pvm_setopt(PvmRoute, is_daemon ? PvmDontRoute : PvmRouteDirect), "pvm_setopt");
    pin(atoi(cpu));
}

static struct plan plan_of(char **words)
{
    const struct plan plan = {strtoul(words[0], NULL, 10), strtoul(words[1], NULL, 10),
                              strtod(words[2], NULL)};

    return plan;
}

static void ping(char **argv)
{
    const struct plan plan = plan_of(argv + 4);
    char *words[] = {"echo", argv[2], argv[3], argv[4], argv[9], NULL};

    set_up(argv[2], argv[3], argv[4], argv[8]);
    other = spawn(words, argv[7]);
    measure(&plan, round_trip_ns);
    put(other, 0);
}

static int is(int argc, char **argv, const char *word, int words)
{
    return argc == words + 2 && strcmp(argv[1], word) == 0;
}

/* What spawned tasks are; 0: it is none of them. */
static int serve(int argc, char **argv)
{
    if (is(argc, argv, "echo", 4)) {
        set_up(argv[2], argv[3], argv[4], argv[5]);
        answer();
    } else if (is(argc, argv, "start", 1)) {
        set_up("direct", "raw", "1", argv[2]);
        put(pvm_parent(), 1);
    } else if (is(argc, argv, "member", 5)) {
        set_up("direct", "raw", argv[5], argv[6]);
        snprintf(group, sizeof group, "%s", argv[3]);
        other = pvm_parent();
        join(argv[2], argv[4]);
        checked(pvm_freezegroup(group, tasks), "pvm_freezegroup");
        member();
        pvm_lvgroup(group);
    } else {
        return 0;
    }
    return 1;
}

/* What a task measures; 0: it is none of that. */
static int measured(int argc, char **argv)
{
    own_file = argv[0];
    if (is(argc, argv, "ping", 8)) {
        ping(argv);
    } else if (is(argc, argv, "pack", 5) || is(argc, argv, "unpack", 5)) {
        const struct plan plan = plan_of(argv + 3);

        set_up("direct", argv[2], argv[3], argv[6]);
        measure(&plan, argv[1][0] == 'p' ? pack_ns : unpack_ns);
    } else if (is(argc, argv, "spawn", 6)) {
        const struct plan plan = plan_of(argv + 2);

        set_up("direct", "raw", argv[2], argv[6]);
        other_host = argv[5];
        other_cpu = argv[7];
        measure(&plan, spawn_ns);
    } else if (is(argc, argv, "barrier", 7) || is(argc, argv, "reduce", 7)) {
        const struct plan plan = plan_of(argv + 3);

        set_up("direct", "raw", argv[3], argv[7]);
        lead(argv, &plan);
    } else {
        return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    if (is(argc, argv, "hosts", 0)) {
        print_hosts();
    } else if (is(argc, argv, "elsewhere", 0)) {
        print_tasks_elsewhere();
    } else if (is(argc, argv, "halt", 0)) {
        return pvm_halt() < 0;
    } else if (!serve(argc, argv) && !measured(argc, argv)) {
        fail("usage: the comment at the beginning of bench/peers/pvm_peer.c says it");
    }
    pvm_exit();
    return 0;
}
