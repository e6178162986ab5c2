/*
 * Conjugate gradients: `rounds` steps towards the solution of A x = b, where A is symmetric,
 * positive definite and sparse, with `size` rows. A task has a share of the rows; in each step it
 * gets all of the direction from the others (all to all), and adds up two sums with them.
 */
#define _GNU_SOURCE

#include <math.h>

#include "program.h"

static const struct program PROGRAM = {"gradients", 32768, 200, 4194304};

enum {
    /* Off the diagonal, on each side of it. */
    BANDS = 8,
    ELEMENTS = 2 * BANDS
};

/* By how much a column is away from its row; larger than the share of a task, too. */
static const int DISTANCES[BANDS] = {1, 2, 29, 211, 1009, 4001, 9001, 12007};

/* Sums of the parts are added in another order than all at once. */
static const double TOLERANCE = 1e-8;

/* Rows of a matrix. */
struct rows {
    int count;
    int *columns;
    double *values;
    double *diagonal;
};

/* Of both elements that mirror each other. */
static double element(int row, int column)
{
    const uint32_t low = (uint32_t)(row < column ? row : column);
    const uint32_t high = (uint32_t)(row < column ? column : row);

    return -program_fraction(low * 31u + program_hash(high));
}

static struct rows make_rows(int first, int count, int size)
{
    struct rows rows = {count, program_memory((size_t)count * ELEMENTS, sizeof *rows.columns),
                        program_memory((size_t)count * ELEMENTS, sizeof *rows.values),
                        program_memory((size_t)count, sizeof *rows.diagonal)};
    size_t at = 0;
    int row, band;

    for (row = first; row < first + count; row++) {
        double sum = 1.0;

        for (band = 0; band < ELEMENTS; band++) {
            const int distance = DISTANCES[band / 2] % size;
            const int column = (row + (band % 2 == 0 ? distance : size - distance)) % size;

            rows.columns[at] = column;
            rows.values[at] = column == row ? 0.0 : element(row, column);
            sum -= rows.values[at++];
        }
        /* Larger than the rest of the row: positive definite. */
        rows.diagonal[row - first] = sum;
    }
    return rows;
}

static void free_rows(struct rows *rows)
{
    free(rows->columns);
    free(rows->values);
    free(rows->diagonal);
}

/* `all` is the whole vector, `first` the number of the first of these rows. */
static void multiply(const struct rows *rows, const double *all, int first, double *result)
{
    size_t at = 0;
    int row, band;

    for (row = 0; row < rows->count; row++) {
        double sum = rows->diagonal[row] * all[first + row];

        for (band = 0; band < ELEMENTS; band++, at++) {
            sum += rows->values[at] * all[rows->columns[at]];
        }
        result[row] = sum;
    }
}

static double dot(const double *one, const double *other, int count)
{
    double sum = 0.0;
    int index;

    for (index = 0; index < count; index++) {
        sum += one[index] * other[index];
    }
    return sum;
}

/* Each task: all of the vector that each has a share of. */
static void share_vector(const double *own, double *all, int size)
{
    int mine[MESSAGE_TASKS_MAX], zeros[MESSAGE_TASKS_MAX] = {0};
    int counts[MESSAGE_TASKS_MAX], places[MESSAGE_TASKS_MAX];
    int rank;

    for (rank = 0; rank < message.count; rank++) {
        mine[rank] = program_share(size, message.rank);
        counts[rank] = program_share(size, rank);
        places[rank] = program_first(size, rank);
    }
    message_all_to_all(MESSAGE_DOUBLES, own, mine, zeros, all, counts, places);
}

/* The vectors of a solution, of one share. */
struct vectors {
    double *solution;
    double *residual;
    double *direction;
    double *product;
    double *all;
};

static struct vectors make_vectors(int count, int size)
{
    const size_t own = (size_t)count;
    const struct vectors vectors = {
        program_memory(own, sizeof(double)), program_memory(own, sizeof(double)),
        program_memory(own, sizeof(double)), program_memory(own, sizeof(double)),
        program_memory((size_t)size, sizeof(double))};

    return vectors;
}

static void free_vectors(struct vectors *vectors)
{
    free(vectors->residual);
    free(vectors->direction);
    free(vectors->product);
    free(vectors->all);
}

/* The share of the solution from row `first` on; serial where the share is all. */
static double *solve(int first, int count, const struct program_options *options)
{
    const int size = options->size, is_parallel = count < size;
    struct rows rows = make_rows(first, count, size);
    struct vectors own = make_vectors(count, size);
    double square;
    int round, index;

    for (index = 0; index < count; index++) {
        own.residual[index] = own.direction[index] = program_fraction((uint32_t)(first + index));
    }
    square = dot(own.residual, own.residual, count);
    if (is_parallel) {
        message_sum(&square, 1);
    }
    for (round = 0; round < options->rounds && square > 0.0; round++) {
        double curve, step, before = square;

        if (is_parallel) {
            share_vector(own.direction, own.all, size);
        } else {
            memcpy(own.all, own.direction, (size_t)size * sizeof *own.all);
        }
        multiply(&rows, own.all, first, own.product);
        curve = dot(own.direction, own.product, count);
        if (is_parallel) {
            message_sum(&curve, 1);
        }
        step = before / curve;
        for (index = 0; index < count; index++) {
            own.solution[index] += step * own.direction[index];
            own.residual[index] -= step * own.product[index];
        }
        square = dot(own.residual, own.residual, count);
        if (is_parallel) {
            message_sum(&square, 1);
        }
        for (index = 0; index < count; index++) {
            own.direction[index] = own.residual[index] + square / before * own.direction[index];
        }
    }
    free_rows(&rows);
    free_vectors(&own);
    return own.solution;
}

int main(int argc, char **argv)
{
    const struct program_options options = program_begin(&PROGRAM, argc, argv);
    const int size = options.size;
    struct program_clock clock;
    double *own, *all = NULL;
    int code = EXIT_SUCCESS;

    if (message.count > size) {
        message_fail("there are fewer rows than tasks: choose a larger --size");
    }
    if (message.rank == 0) {
        all = program_memory((size_t)size, sizeof *all);
    }
    clock = program_start();
    own = solve(program_first(size, message.rank), program_share(size, message.rank), &options);
    program_stop(&clock);
    program_gather(own, all, size, 1);
    if (message.rank == 0) {
        const uint64_t start = message_now_ns();
        double *serial = solve(0, size, &options);
        const uint64_t serial_ns = message_now_ns() - start;
        long differs = 0;
        int index;

        for (index = 0; index < size; index++) {
            const double difference = fabs(all[index] - serial[index]);

            /* Also where it is no number. */
            differs += !(difference <= TOLERANCE * (fabs(serial[index]) + 1e-3));
        }
        code = program_report(&PROGRAM, &options, &clock, serial_ns, differs);
        free(serial);
    }
    free(own);
    free(all);
    message_end();
    return code;
}
