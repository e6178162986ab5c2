/*
 * The core's half of a pair that takes turns in a segment (`hythe bench core --pair`): writes a
 * message, or reads one and compares it. The task of methods.c calls these.
 */
#include "pair.h"

#include <string.h>

enum {
    PRODUCE = 50,
    CONSUME = 51
};

/* The argument is too short, or its sizes are odd; no such attachment; outside of it; a word is
 * another. */
enum {
    TOO_SHORT = 1,
    NO_SUCH = 2,
    OUTSIDE = 3,
    DAMAGED = 4
};

/* The words of an argument. */
enum {
    PLACE,
    OFFSET,
    BYTES,
    PIECE_BYTES,
    NUMBER_LOW,
    NUMBER_HIGH,
    IS_COMPUTED,
    WORDS
};

struct turn {
    uint64_t *words;
    uint32_t count;
    /* Each piece begins anew. */
    uint32_t piece_words;
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

/* The one word of a message that is stored all over. */
static uint64_t stored_word(uint64_t number)
{
    return number * 0x9E3779B97F4A7C15u | 1u;
}

static uint64_t seed(uint64_t number, uint32_t piece)
{
    return (number << 32 | number >> 32) ^ piece;
}

static int turn_of(const struct segments *segments, const struct hythe_rpc_request *request,
                   struct turn *turn)
{
    uint32_t argument[WORDS];
    const struct hythe_shm *shm;

    if (request->argument_bytes < sizeof argument) {
        return TOO_SHORT;
    }
    memcpy(argument, request->argument, sizeof argument);
    if (argument[PIECE_BYTES] == 0 || argument[PIECE_BYTES] % 8 != 0 || argument[BYTES] % 8 != 0 ||
        argument[OFFSET] % 8 != 0) {
        return TOO_SHORT;
    }
    if (argument[PLACE] >= SEGMENTS_ATTACHED_MAX) {
        return NO_SUCH;
    }
    shm = &segments->attached[argument[PLACE]];
    if (shm->address == NULL) {
        return NO_SUCH;
    }
    if (hythe_shm_check(shm, shm->address + argument[OFFSET], argument[BYTES], 0) != 0) {
        return OUTSIDE;
    }
    turn->words = (uint64_t *)(void *)(shm->address + argument[OFFSET]);
    turn->count = argument[BYTES] / 8;
    turn->piece_words = argument[PIECE_BYTES] / 8;
    turn->number = (uint64_t)argument[NUMBER_HIGH] << 32 | argument[NUMBER_LOW];
    turn->is_computed = argument[IS_COMPUTED] != 0;
    return 0;
}

static void write_piece(const struct turn *turn, uint64_t *words, uint32_t count, uint32_t piece)
{
    uint64_t state = seed(turn->number, piece);
    uint64_t stored = stored_word(turn->number);
    uint32_t i;

    for (i = 0; i < count; i++) {
        words[i] = turn->is_computed ? next_random(&state) : stored;
    }
}

static int is_piece(const struct turn *turn, const uint64_t *words, uint32_t count, uint32_t piece)
{
    uint64_t state = seed(turn->number, piece);
    uint64_t stored = stored_word(turn->number);
    uint64_t different = 0;
    uint32_t i;

    for (i = 0; i < count; i++) {
        different |= words[i] ^ (turn->is_computed ? next_random(&state) : stored);
    }
    return different == 0;
}

static int produce(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    struct turn turn;
    uint32_t at;
    int result = turn_of(context, request, &turn);

    (void)reply;
    for (at = 0; result == 0 && at < turn.count; at += turn.piece_words) {
        uint32_t left = turn.count - at;
        write_piece(&turn, turn.words + at, left < turn.piece_words ? left : turn.piece_words,
                    at / turn.piece_words);
    }
    return result;
}

static int consume(void *context, const struct hythe_rpc_request *request,
                   struct hythe_rpc_reply *reply)
{
    struct turn turn;
    uint32_t at;
    int result = turn_of(context, request, &turn);

    (void)reply;
    for (at = 0; result == 0 && at < turn.count; at += turn.piece_words) {
        uint32_t left = turn.count - at;
        if (!is_piece(&turn, turn.words + at, left < turn.piece_words ? left : turn.piece_words,
                      at / turn.piece_words)) {
            result = DAMAGED;
        }
    }
    return result;
}

void pair_methods(struct segments *segments, struct hythe_rpc_method *table)
{
    const struct hythe_rpc_method methods[PAIR_METHODS] = {
        {PRODUCE, produce, segments},
        {CONSUME, consume, segments},
    };

    memcpy(table, methods, sizeof methods);
}
