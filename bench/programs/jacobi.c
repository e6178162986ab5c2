/*
 * Jacobi's method for Laplace's equation in a square of `size` by `size` points, `rounds` times:
 * each point becomes the mean of its four neighbours. A task has a share of the rows, and gets the
 * row above and the one below from its neighbours in each round.
 */
#define _GNU_SOURCE

#include "program.h"

static const struct program PROGRAM = {"jacobi", 512, 2000, 8192};

/* Rows with a border above and below, and a column on either side. */
static size_t width_of(int size)
{
    return (size_t)size + 2;
}

/* Hot above, cold elsewhere; `first` is the number of the first row within the square. */
static void set_up(double *grid, int first, int rows, int size)
{
    const size_t width = width_of(size);
    int row;
    size_t column;

    for (row = 0; row < rows + 2; row++) {
        for (column = 0; column < width; column++) {
            grid[(size_t)row * width + column] = first + row == 0 ? 1.0 : 0.0;
        }
    }
}

static void step(const double *from, double *to, int rows, int size)
{
    const size_t width = width_of(size);
    int row;

    for (row = 1; row <= rows; row++) {
        const double *above = from + (size_t)(row - 1) * width, *here = above + width,
                     *below = here + width;
        double *result = to + (size_t)row * width;
        int column;

        for (column = 1; column <= size; column++) {
            result[column] =
                0.25 * (above[column] + below[column] + here[column - 1] + here[column + 1]);
        }
    }
}

/* The rows at the edges of this share, to the neighbours, and theirs into the borders. */
static void swap_borders(double *grid, int rows, int size)
{
    const int width = size + 2, above = message.rank - 1, below = message.rank + 1;
    double *first = grid + width, *last = grid + (size_t)rows * (size_t)width;

    if (message.rank % 2 == 0) {
        if (below < message.count) {
            message_exchange(MESSAGE_DOUBLES, below, last, width, below, last + width, width);
        }
        if (above >= 0) {
            message_exchange(MESSAGE_DOUBLES, above, first, width, above, grid, width);
        }
    } else {
        message_exchange(MESSAGE_DOUBLES, above, first, width, above, grid, width);
        if (below < message.count) {
            message_exchange(MESSAGE_DOUBLES, below, last, width, below, last + width, width);
        }
    }
}

/* Returns the grid that has the result; the other one's memory is free again. */
static double *solve(int first, int rows, const struct program_options *options, int is_parallel)
{
    const size_t points = (size_t)(rows + 2) * width_of(options->size);
    double *grid = program_memory(points, sizeof *grid);
    double *next = program_memory(points, sizeof *next);
    int round;

    set_up(grid, first, rows, options->size);
    set_up(next, first, rows, options->size);
    for (round = 0; round < options->rounds; round++) {
        double *result = next;

        if (is_parallel) {
            swap_borders(grid, rows, options->size);
        }
        step(grid, next, rows, options->size);
        next = grid;
        grid = result;
    }
    free(next);
    return grid;
}

/* Rank 0, which has all rows without borders: how many points are not those of the serial run. */
static long compare(const double *all, const struct program_options *options, uint64_t *serial_ns)
{
    const size_t width = width_of(options->size), points = (size_t)options->size * width;
    const uint64_t start = message_now_ns();
    double *serial = solve(0, options->size, options, 0);
    long differs = 0;
    size_t point;

    *serial_ns = message_now_ns() - start;
    for (point = 0; point < points; point++) {
        /* The same operations in the same order: the same bits. */
        differs += memcmp(&all[point], &serial[width + point], sizeof *all) != 0;
    }
    free(serial);
    return differs;
}

int main(int argc, char **argv)
{
    const struct program_options options = program_begin(&PROGRAM, argc, argv);
    const int size = options.size, rows = program_share(size, message.rank);
    const int width = size + 2;
    struct program_clock clock;
    double *own, *all = NULL;
    int code = EXIT_SUCCESS;

    if (message.count > size) {
        message_fail("there are fewer rows than tasks: choose a larger --size");
    }
    if (message.rank == 0) {
        all = program_memory((size_t)size * (size_t)width, sizeof *all);
    }
    clock = program_start();
    own = solve(program_first(size, message.rank), rows, &options, message.count > 1);
    program_stop(&clock);
    program_gather(own + width, all, size, width);
    if (message.rank == 0) {
        uint64_t serial_ns;
        const long differs = compare(all, &options, &serial_ns);

        code = program_report(&PROGRAM, &options, &clock, serial_ns, differs);
    }
    free(own);
    free(all);
    message_end();
    return code;
}
