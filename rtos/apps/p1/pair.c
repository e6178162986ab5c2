/*
 * One of a pair that share a segment and two semaphores (`hythe bench core --pair`): writes a
 * message into one half of the segment while a process reads the one before it from the other, or
 * reads it while a process writes the next.
 */
#include "pair.h"

#include "hythe_shm.h"

/* Bounds each wait, so that it hears soon that it is to stop. */
#define WAIT_MS 500u
/* Longer than an agent takes on a loaded machine. */
#define CALL_MS 60000u
/* Each piece of a message begins anew. */
#define PIECE_WORDS 512u

struct turn {
    uint64_t *words;
    uint32_t count;
    uint64_t number;
    int is_computed;
};

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t word;

    *state += 0x9E3779B97F4A7C15u;
    word = *state;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

/* The word at `index` of a message: of a random stream, or the same all over. */
static uint64_t next_word(const struct turn *turn, uint32_t index, uint64_t *state)
{
    if (!turn->is_computed) {
        return turn->number * 0x9E3779B97F4A7C15u | 1u;
    }
    if (index % PIECE_WORDS == 0) {
        *state = (turn->number << 32 | turn->number >> 32) ^ (index / PIECE_WORDS);
    }
    return next_random(state);
}

static void write_message(const struct turn *turn)
{
    uint64_t state = 0;
    uint32_t i;

    for (i = 0; i < turn->count; i++) {
        turn->words[i] = next_word(turn, i, &state);
    }
}

static int is_message(const struct turn *turn)
{
    uint64_t different = 0;
    uint64_t state = 0;
    uint32_t i;

    for (i = 0; i < turn->count; i++) {
        different |= turn->words[i] ^ next_word(turn, i, &state);
    }
    return different == 0;
}

/* Until it is to stop, or a message is another: then nobody posts, and the process misses it. */
static void take_turns(struct hythe_task *task, struct turn *turn, int writes,
                       struct hythe_sem *from, struct hythe_sem *to)
{
    uint64_t *first = turn->words;

    while (!hythe_task_should_stop(task)) {
        if (hythe_sem_timedwait(from, WAIT_MS) != 0) {
            continue;
        }
        turn->words = first + (turn->number % 2) * turn->count;
        if (writes) {
            write_message(turn);
        } else if (!is_message(turn)) {
            return;
        }
        (void)hythe_sem_post(to);
        turn->number++;
    }
}

static uint32_t number_of(const char *digits)
{
    uint32_t number = 0;

    while (*digits >= '0' && *digits <= '9') {
        number = 10 * number + (uint32_t)(*digits++ - '0');
    }
    return number;
}

void pair_run(struct hythe_task *task, struct hythe_services *services, int writes, char *argument)
{
    int32_t id = (int32_t)number_of(objects_cut(&argument));
    uint32_t bytes = number_of(objects_cut(&argument));
    int is_computed = objects_cut(&argument)[0] == 'c';
    const char *from_name = objects_cut(&argument);
    const char *to_name = objects_cut(&argument);
    struct turn turn = {NULL, bytes / 8, 0, is_computed};
    struct hythe_sem from;
    struct hythe_sem to;
    struct hythe_shm shm;

    if (hythe_shmat(services, id, 0, &shm, CALL_MS) != 0) {
        return;
    }
    turn.words = (uint64_t *)(void *)shm.address;
    if (bytes / 8 <= shm.bytes / 16 && hythe_sem_open(services, from_name, 0, 0, 0, &from) == 0 &&
        hythe_sem_open(services, to_name, 0, 0, 0, &to) == 0) {
        take_turns(task, &turn, writes, &from, &to);
    }
    /* The semaphores are closed with this task. */
    (void)hythe_shmdt(&shm, CALL_MS);
}
