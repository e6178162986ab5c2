/*
 * The product of two matrices of `size` by `size` doubles, `rounds` times: rank 0 has both and
 * sends each task its share of the rows of the left one and all of the right one; each task sends
 * its rows of the product back.
 */
#define _GNU_SOURCE

#include "program.h"

static const struct program PROGRAM = {"matrix", 384, 20, 4096};

static void multiply(const double *left, const double *right, double *product, int rows, int size)
{
    const size_t width = (size_t)size;
    int row, inner, column;

    for (row = 0; row < rows; row++) {
        double *result = product + (size_t)row * width;

        memset(result, 0, width * sizeof *result);
        for (inner = 0; inner < size; inner++) {
            const double factor = left[(size_t)row * width + (size_t)inner];
            const double *other = right + (size_t)inner * width;

            for (column = 0; column < size; column++) {
                result[column] += factor * other[column];
            }
        }
    }
}

/* The same on every rank: in the share of a worker it is what rank 0 has sent. */
static void set_up(double *matrix, int size, uint32_t seed)
{
    const size_t elements = (size_t)size * (size_t)size;
    size_t element;

    for (element = 0; element < elements; element++) {
        matrix[element] = program_fraction((uint32_t)element * 2 + seed) - 0.5;
    }
}

static void distribute(const double *left, const double *right, int size)
{
    int rank;

    for (rank = 1; rank < message.count; rank++) {
        const double *share = left + (size_t)program_first(size, rank) * (size_t)size;

        message_send(rank, MESSAGE_DOUBLES, share, program_share(size, rank) * size);
        message_send(rank, MESSAGE_DOUBLES, right, size * size);
    }
}

int main(int argc, char **argv)
{
    const struct program_options options = program_begin(&PROGRAM, argc, argv);
    const int size = options.size, rows = program_share(size, message.rank);
    const int is_first = message.rank == 0;
    const size_t elements = (size_t)size * (size_t)size;
    double *left = program_memory(elements, sizeof *left);
    double *right = program_memory(elements, sizeof *right);
    double *product = program_memory(elements, sizeof *product);
    double *own = program_memory((size_t)rows * (size_t)size, sizeof *own);
    struct program_clock clock;
    int round, code = EXIT_SUCCESS;

    if (is_first) {
        set_up(left, size, 0);
        set_up(right, size, 1);
    }
    clock = program_start();
    for (round = 0; round < options.rounds; round++) {
        if (is_first) {
            distribute(left, right, size);
        } else {
            message_receive(0, MESSAGE_DOUBLES, left, rows * size);
            message_receive(0, MESSAGE_DOUBLES, right, size * size);
        }
        multiply(left, right, own, rows, size);
        program_gather(own, product, size, size);
    }
    program_stop(&clock);
    if (is_first) {
        double *serial = program_memory(elements, sizeof *serial);
        const uint64_t start = message_now_ns();
        uint64_t serial_ns;
        long differs = 0;
        size_t element;

        for (round = 0; round < options.rounds; round++) {
            multiply(left, right, serial, size, size);
        }
        serial_ns = message_now_ns() - start;
        for (element = 0; element < elements; element++) {
            /* The same operations in the same order: the same bits. */
            differs += memcmp(&product[element], &serial[element], sizeof *serial) != 0;
        }
        code = program_report(&PROGRAM, &options, &clock, serial_ns, differs);
        free(serial);
    }
    free(left);
    free(right);
    free(product);
    free(own);
    message_end();
    return code;
}
