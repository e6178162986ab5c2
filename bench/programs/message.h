/*
 * The messages of the parallel programs: PVM, or MPI where MESSAGE_MPI is defined.
 *
 * Included by one program each of this folder. Between message_begin() and message_end() the
 * tasks have ranks from 0 on; each call below says which of them must call it. The time inside of
 * these calls is added up as time in communication. A program that is not done within `bound_s`
 * seconds ends with a message: no wait is without a bound.
 *
 * PVM: rank 0 is the task that a person starts; it spawns the others from the same file, told by
 * the word MESSAGE_TASK. Direct route. Raw data, unless MESSAGE_ENCODING says PvmDataDefault.
 */
#ifndef HYTHE_BENCH_MESSAGE_H
#define HYTHE_BENCH_MESSAGE_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <signal.h>

#ifdef MESSAGE_MPI
#include <mpi.h>
#define MESSAGE_SYSTEM "mpi"
#else
#include <pvm3.h>
#define MESSAGE_SYSTEM "pvm"
#ifndef MESSAGE_ENCODING
#define MESSAGE_ENCODING PvmDataRaw
#endif
#endif

#define MESSAGE_TASK "--task"

enum {
    MESSAGE_TASKS_MAX = 64,
    MESSAGE_TAG = 1,
    MESSAGE_NAME_MAX = 64
};

/* What an array consists of. */
enum message_kind {
    MESSAGE_INTS,
    MESSAGE_DOUBLES
};

/* Where the tasks run. A list is used again from its start where there are more tasks. */
struct message_places {
    /* PVM only, separated by commas; empty: wherever PVM likes. */
    const char *hosts;
    /* Separated by commas; empty: wherever the system likes. */
    const char *cpus;
};

struct message_state {
    int rank;
    int count;
    /* Inside of the calls below. */
    uint64_t spent_ns;
    uint64_t sent;
    uint64_t sent_bytes;
#ifndef MESSAGE_MPI
    int tids[MESSAGE_TASKS_MAX];
    char group[MESSAGE_NAME_MAX];
#endif
};

static struct message_state message;

static void message_fail(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", message.rank, what);
    exit(EXIT_FAILURE);
}

static uint64_t message_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void message_too_late(int signal)
{
    static const char what[] = "it was not done in time: a task is gone, or the size too large\n";

    (void)signal;
    if (write(STDERR_FILENO, what, sizeof what - 1) < 0) {
        _exit(EXIT_FAILURE);
    }
    _exit(EXIT_FAILURE);
}

/* The word of a list that is this task's; 0 where the list is empty. */
static int message_place(const char *list, int rank, char *word, size_t size)
{
    int words = 1, wanted;
    size_t length;

    for (const char *at = list; *at != '\0'; at++) {
        words += *at == ',';
    }
    for (wanted = rank % words; wanted > 0; wanted--) {
        list = strchr(list, ',') + 1;
    }
    length = strcspn(list, ",");
    if (length >= size) {
        message_fail("a word of --hosts or --cpus is too long");
    }
    memcpy(word, list, length);
    word[length] = '\0';
    return length > 0;
}

static void message_pin(const char *list)
{
    char word[MESSAGE_NAME_MAX];
    cpu_set_t cpus;

    if (!message_place(list, message.rank, word, sizeof word)) {
        return;
    }
    CPU_ZERO(&cpus);
    CPU_SET((size_t)atoi(word), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        message_fail("a CPU of --cpus cannot be used");
    }
}

static size_t message_bytes(enum message_kind kind, int count)
{
    return (size_t)count * (kind == MESSAGE_INTS ? sizeof(int) : sizeof(double));
}

static void message_count_sent(enum message_kind kind, int count)
{
    message.sent++;
    message.sent_bytes += message_bytes(kind, count);
}

#ifdef MESSAGE_MPI

static MPI_Datatype message_type(enum message_kind kind)
{
    return kind == MESSAGE_INTS ? MPI_INT : MPI_DOUBLE;
}

static void message_start(int *argc, char ***argv, int tasks, const struct message_places *places)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &message.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &message.count);
    if (tasks != 0 && tasks != message.count) {
        message_fail("--tasks is not what mpirun has started");
    }
    message_pin(places->cpus);
}

static void message_stop(void)
{
    MPI_Finalize();
}

static void message_put(int to, enum message_kind kind, const void *data, int count)
{
    MPI_Send(data, count, message_type(kind), to, MESSAGE_TAG, MPI_COMM_WORLD);
}

static void message_take(int from, enum message_kind kind, void *data, int count)
{
    MPI_Recv(data, count, message_type(kind), from, MESSAGE_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void message_swap(enum message_kind kind, int to, const void *out, int out_count, int from,
                         void *in, int in_count)
{
    MPI_Sendrecv(out, out_count, message_type(kind), to, MESSAGE_TAG, in, in_count,
                 message_type(kind), from, MESSAGE_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void message_meet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void message_add_up(double *values, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

#else

static void message_checked(int code, const char *what)
{
    if (code < 0) {
        pvm_perror((char *)what);
        message_fail(what);
    }
}

/* Both arrays are the caller's; PVM's functions take no constants. */
static void message_pack(enum message_kind kind, const void *data, int count)
{
    const int packed = kind == MESSAGE_INTS ? pvm_pkint((int *)data, count, 1)
                                            : pvm_pkdouble((double *)data, count, 1);

    message_checked(packed, "pvm_pkint or pvm_pkdouble");
}

static void message_put(int to, enum message_kind kind, const void *data, int count)
{
    message_checked(pvm_initsend(MESSAGE_ENCODING), "pvm_initsend");
    message_pack(kind, data, count);
    message_checked(pvm_send(message.tids[to], MESSAGE_TAG), "pvm_send");
}

static void message_unpack(int from, enum message_kind kind, void *data, int count)
{
    int unpacked;

    message_checked(pvm_recv(from, MESSAGE_TAG), "pvm_recv");
    unpacked = kind == MESSAGE_INTS ? pvm_upkint(data, count, 1) : pvm_upkdouble(data, count, 1);
    message_checked(unpacked, "pvm_upkint or pvm_upkdouble");
}

static void message_take(int from, enum message_kind kind, void *data, int count)
{
    message_unpack(message.tids[from], kind, data, count);
}

/* pvm_send() waits for nobody. */
static void message_swap(enum message_kind kind, int to, const void *out, int out_count, int from,
                         void *in, int in_count)
{
    message_put(to, kind, out, out_count);
    message_take(from, kind, in, in_count);
}

static void message_meet(void)
{
    message_checked(pvm_barrier(message.group, message.count), "pvm_barrier");
}

/* pvm_reduce() has its result at one task only. */
static void message_add_up(double *values, int count)
{
    const int reduced =
        pvm_reduce(PvmSum, values, count, PVM_DOUBLE, MESSAGE_TAG + 1, message.group, 0);

    message_checked(reduced, "pvm_reduce");
    if (message.rank == 0) {
        message_checked(pvm_initsend(MESSAGE_ENCODING), "pvm_initsend");
        message_pack(MESSAGE_DOUBLES, values, count);
        message_checked(pvm_mcast(message.tids + 1, message.count - 1, MESSAGE_TAG), "pvm_mcast");
    } else {
        message_take(0, MESSAGE_DOUBLES, values, count);
    }
}

/* Rank 0: starts the others from this file, each where it belongs. */
static void message_spawn(char **argv, const struct message_places *places)
{
    char **words = calloc((size_t)message.count + 64, sizeof *words);
    char host[MESSAGE_NAME_MAX];
    int rank, given = 0;

    while (words != NULL && given < 60 && argv[given + 1] != NULL) {
        words[given + 1] = argv[given + 1];
        given++;
    }
    if (words == NULL || given == 60) {
        message_fail("no memory for the command line, or too many words");
    }
    words[0] = MESSAGE_TASK;
    for (rank = 1; rank < message.count; rank++) {
        const int at = message_place(places->hosts, rank, host, sizeof host);
        int *tid = &message.tids[rank];

        if (pvm_spawn(argv[0], words, at ? PvmTaskHost : PvmTaskDefault, host, 1, tid) != 1) {
            message_checked(*tid, "pvm_spawn");
        }
    }
    free(words);
}

/*
 * The instances of a group follow the order in which tasks join: one after the other, so that an
 * instance is a rank.
 */
static void message_join(int parent)
{
    int numbers[2] = {0, message.count}, rank;

    if (parent >= 0) {
        message_unpack(parent, MESSAGE_INTS, numbers, 2);
        message.rank = numbers[0];
        message.count = numbers[1];
        message_unpack(parent, MESSAGE_INTS, message.tids, message.count);
    }
    snprintf(message.group, sizeof message.group, "hythe-%x", (unsigned)message.tids[0]);
    if (pvm_joingroup(message.group) != message.rank) {
        message_fail("pvm_joingroup: another instance than the rank; is the group server there?");
    }
    if (parent >= 0) {
        message_put(0, MESSAGE_INTS, &message.rank, 1);
        return;
    }
    for (rank = 1; rank < message.count; rank++) {
        numbers[0] = rank;
        message_put(rank, MESSAGE_INTS, numbers, 2);
        message_put(rank, MESSAGE_INTS, message.tids, message.count);
        message_take(rank, MESSAGE_INTS, numbers, 1);
    }
}

static void message_start(int *argc, char ***argv, int tasks, const struct message_places *places)
{
    const int is_spawned = *argc > 1 && strcmp((*argv)[1], MESSAGE_TASK) == 0;

    message_checked(pvm_mytid(), "pvm_mytid: is a PVM daemon there?");
    message_checked(pvm_setopt(PvmRoute, PvmRouteDirect), "pvm_setopt");
    message.tids[0] = is_spawned ? pvm_parent() : pvm_mytid();
    message.count = tasks == 0 ? 1 : tasks;
    if (!is_spawned) {
        message_spawn(*argv, places);
    }
    message_join(is_spawned ? message.tids[0] : -1);
    message_checked(pvm_freezegroup(message.group, message.count), "pvm_freezegroup");
    message_pin(places->cpus);
}

static void message_stop(void)
{
    pvm_lvgroup(message.group);
    pvm_exit();
}

#endif

/* Each task, first. `tasks`: how many; MPI's starter knows it, 0 is right there. */
static inline void message_begin(int *argc, char ***argv, int tasks,
                                 const struct message_places *places, unsigned bound_s)
{
    if (tasks < 0 || tasks > MESSAGE_TASKS_MAX) {
        message_fail("so many tasks are not possible");
    }
    signal(SIGALRM, message_too_late);
    alarm(bound_s);
    message_start(argc, argv, tasks, places);
    message.spent_ns = 0;
}

/* Each task, last. */
static inline void message_end(void)
{
    message_stop();
}

/* To one that receives it; may wait until then. */
static inline void message_send(int to, enum message_kind kind, const void *data, int count)
{
    const uint64_t start = message_now_ns();

    message_put(to, kind, data, count);
    message_count_sent(kind, count);
    message.spent_ns += message_now_ns() - start;
}

/* The next one of that task. */
static inline void message_receive(int from, enum message_kind kind, void *data, int count)
{
    const uint64_t start = message_now_ns();

    message_take(from, kind, data, count);
    message.spent_ns += message_now_ns() - start;
}

/* Sends and receives at once: neither waits for the other. */
static inline void message_exchange(enum message_kind kind, int to, const void *out, int out_count,
                                    int from, void *in, int in_count)
{
    const uint64_t start = message_now_ns();

    message_swap(kind, to, out, out_count, from, in, in_count);
    message_count_sent(kind, out_count);
    message.spent_ns += message_now_ns() - start;
}

/* Each task: none goes on before all are here. */
static inline void message_barrier(void)
{
    const uint64_t start = message_now_ns();

    if (message.count > 1) {
        message_meet();
    }
    message.spent_ns += message_now_ns() - start;
}

/* Each task: has the sum of what all had. */
static inline void message_sum(double *values, int count)
{
    const uint64_t start = message_now_ns();

    if (message.count > 1) {
        message_add_up(values, count);
    }
    message.spent_ns += message_now_ns() - start;
}

/*
 * Each task: to every other its part of `out`, and theirs, into `in`, in the order of ranks. The
 * counts and places of the parts are arrays with an element for each task.
 */
static inline void message_all_to_all(enum message_kind kind, const void *out, const int *out_count,
                                      const int *out_at, void *in, const int *in_count,
                                      const int *in_at)
{
    const int own = message.rank, count = message.count;
    int step;

    memcpy((char *)in + message_bytes(kind, in_at[own]),
           (const char *)out + message_bytes(kind, out_at[own]),
           message_bytes(kind, out_count[own]));
    for (step = 1; step < count; step++) {
        const int to = (own + step) % count, from = (own + count - step) % count;

        message_exchange(kind, to, (const char *)out + message_bytes(kind, out_at[to]),
                         out_count[to], from, (char *)in + message_bytes(kind, in_at[from]),
                         in_count[from]);
    }
}

#endif
