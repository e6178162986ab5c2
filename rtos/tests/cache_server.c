/*
 * The servers of cache_linux.h that the core asks: they give empty slots, take requests, and answer
 * each in its slot or in another one, or give it up. Called by cache_linux.c. Never looks into the
 * library.
 */
#include "cache_linux.h"
#include "cache_model.h"
#include "test.h"

#define HEADROOM 256u
#define HEADER_BYTES 16u
#define HEADER_WORDS 4u
#define KIND_REQUEST 1u
#define KIND_REPLY 2u
#define KIND_GIVEN_UP 3u

static struct cache_slot *free_slot(struct cache_linux *self, uint32_t index)
{
    struct cache_slot *slot = &self->slots[index];

    return slot->references == 0 && !slot->is_asked ? slot : NULL;
}

static void give_empty(struct cache_linux *self, uint32_t number)
{
    static const uint32_t no_tag[2] = {0, 0};
    const struct cache_flow *flow = &self->flows[number];
    uint32_t index = cache_random(CACHE_SLOTS);
    struct cache_slot *slot = free_slot(self, index);

    if (slot == NULL || flow->out >= CACHE_CAPACITY / 2 ||
        cache_untaken(self, number) + flow->out + 2 > CACHE_CAPACITY) {
        return;
    }
    slot->counted = 0;
    slot->offset = cache_random(2) == 0 ? HEADER_BYTES : HEADROOM;
    /* Noise of its other uses in the pool. */
    cache_write_payload(self, index);
    cache_linux_push(self, number, index, 4 * CACHE_PAYLOAD_WORDS, no_tag);
}

static void write_header(struct cache_linux *self, uint32_t index, uint32_t kind,
                         const uint32_t tag[2])
{
    uint32_t words[HEADER_WORDS] = {kind, 0, tag[0], tag[1]};
    uint8_t *header = cache_slot_bytes(self, index);
    uint32_t i;

    for (i = 0; i < HEADER_WORDS; i++) {
        cache_store(CACHE_LINUX, cache_word_at(header, i), words[i], 0);
    }
    cache_clean(CACHE_LINUX, header, HEADER_BYTES);
}

/* The reply goes out in the slot of the request, or in another one, which takes its place. */
static void answer(struct cache_linux *self, uint32_t asked)
{
    struct cache_slot *request = &self->slots[asked];
    uint32_t index = cache_random(2) == 0 ? asked : cache_random(CACHE_SLOTS);
    struct cache_slot *reply = index == asked ? request : free_slot(self, index);

    if (reply == NULL) {
        return;
    }
    request->is_asked = 0;
    request->counted = 0;
    reply->counted = 1;
    reply->kind = cache_random(4) == 0 ? KIND_GIVEN_UP : KIND_REPLY;
    reply->offset = cache_random(2) == 0 ? HEADER_BYTES : HEADROOM;
    cache_write_payload(self, index);
    write_header(self, index, reply->kind, request->tag);
    cache_linux_push(self, request->flow, index, reply->kind == KIND_REPLY ? 4 * reply->words : 0,
                     request->tag);
    self->answers++;
}

void cache_server_step(struct cache_linux *self, uint32_t number)
{
    uint32_t first = cache_random(CACHE_SLOTS);
    uint32_t i;

    if (self->flows[number].state != CACHE_ATTACHED) {
        return;
    }
    for (i = 0; i < CACHE_SLOTS; i++) {
        uint32_t index = (first + i) % CACHE_SLOTS;
        if (self->slots[index].is_asked && self->slots[index].flow == number) {
            answer(self, index);
            return;
        }
    }
    if (!self->is_closing) {
        give_empty(self, number);
    }
}

void cache_server_take(struct cache_linux *self, uint32_t index, const uint32_t words[8])
{
    struct cache_slot *slot = &self->slots[index];
    uint8_t *header = cache_slot_bytes(self, index);

    CHECK((words[6] | words[7]) != 0);
    cache_invalidate(CACHE_LINUX, header, HEADER_BYTES);
    CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(header, 0), 0), KIND_REQUEST);
    CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(header, 2), 0), words[6]);
    CHECK_EQUAL(cache_load(CACHE_LINUX, cache_word_at(header, 3), 0), words[7]);
    CHECK_EQUAL(words[2], slot->offset);
    cache_check_payload(self, index, words[3]);
    slot->is_asked = 1;
    slot->tag[0] = words[6];
    slot->tag[1] = words[7];
}

int cache_server_is_busy(const struct cache_linux *self)
{
    uint32_t i;

    for (i = 0; i < CACHE_SLOTS; i++) {
        if (self->slots[i].is_asked) {
            return 1;
        }
    }
    return 0;
}
