/*
 * Ping-pong over MPI, written against MPI_Send and MPI_Recv as anybody would.
 *
 * The peers "openmpi" and "mpich" of `hythe bench ipc` and `host`, which compile it by mpicc and
 * start two ranks by mpirun. Rank 0 measures, rank 1 answers until an empty message comes. With
 * `single` rank 0 sends COUNT messages one way, of which rank 1 acknowledges the last.
 *
 * Usage: mpi_peer SIZE COUNT SECONDS CPU_OF_RANK_0 CPU_OF_RANK_1 [single]
 */
#define _GNU_SOURCE

#include <mpi.h>

#include "exchange.h"

enum {
    TAG = 1
};

static unsigned char *buffer;
static int bytes;

static void put(int to, uint64_t number)
{
    fill(buffer, (size_t)bytes, number);
    MPI_Send(buffer, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

/* 0: the other rank has finished. */
static int take(int from, uint64_t number)
{
    MPI_Status status;
    int received;

    MPI_Recv(buffer, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (received == 0) {
        return 0;
    }
    if (received != bytes) {
        fail("a message is too short");
    }
    check(buffer, (size_t)bytes, number);
    return 1;
}

static void there_and_back(uint64_t number)
{
    put(1, number);
    if (!take(1, number)) {
        fail("the other rank has finished");
    }
}

static void put_there(uint64_t number)
{
    put(1, number);
}

static void wait_for_acknowledgement(uint64_t number)
{
    if (!take(1, number)) {
        fail("the other rank has finished");
    }
}

static void acknowledge(unsigned long count)
{
    uint64_t number;

    for (number = 0; number < count && take(0, number); number++) {
    }
    put(0, number);
}

static void answer(void)
{
    uint64_t number;

    for (number = 0; take(0, number); number++) {
        put(0, number);
    }
}

/*
 * Before MPI_Init(), in which ranks of one host spin already, both on the CPU of their starter: the
 * rank is what Open MPI's starter or MPICH's says. Where neither does, pin() comes later.
 */
static void pin_early(char **argv)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    int rank;

    if (text == NULL) {
        text = getenv("PMI_RANK");
    }
    rank = text == NULL ? -1 : atoi(text);
    if (rank == 0 || rank == 1) {
        pin(atoi(argv[4 + rank]));
    }
}

int main(int argc, char **argv)
{
    struct plan plan;
    int rank, ranks, is_single;

    if (argc >= 6) {
        pin_early(argv);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    is_single = argc == 7 && strcmp(argv[6], "single") == 0;
    if ((argc != 6 && !is_single) || ranks != 2) {
        fail("usage, with two ranks: mpi_peer SIZE COUNT SECONDS CPU_OF_RANK_0 CPU_OF_RANK_1 "
             "[single]");
    }
    pin(atoi(argv[4 + rank]));
    plan.size = strtoul(argv[1], NULL, 10);
    plan.count = strtoul(argv[2], NULL, 10);
    plan.seconds = strtod(argv[3], NULL);
    bytes = (int)plan.size;
    buffer = malloc(plan.size);
    if (buffer == NULL) {
        fail("not so many bytes");
    }
    if (rank == 0) {
        if (is_single) {
            measure_rate(&plan, put_there, wait_for_acknowledgement);
        } else {
            measure(&plan, round_trip_ns);
        }
        MPI_Send(buffer, 0, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else {
        if (is_single) {
            acknowledge(plan.count);
        }
        answer();
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
