/* The copying transfer, with a Linux that is this test: it writes and reads the same words. */
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "transfer.h"

enum {
    MESSAGE_BYTES = 4096,
    /* Words of RPMsg's header. */
    TOTAL = 2,
    LENGTH = 3
};

static uint8_t *memory;
static struct hythe_buffer buffer;
static struct hythe_port port;
static struct transfer transfer;
static uint64_t message_words[MESSAGE_BYTES / sizeof(uint64_t)];
static uint8_t *const message = (uint8_t *)message_words;
static uint32_t rings;
static uint32_t waits;
/* Of Linux's two ends. */
static uint32_t sent;
static uint32_t taken;

static void ring(void *context)
{
    (void)context;
    rings++;
}

static void wait(void *context, uint32_t timeout_ms)
{
    (void)context;
    (void)timeout_ms;
    waits++;
}

static uint32_t *word(uint32_t at)
{
    return (uint32_t *)(void *)(memory + at);
}

static void clear_ring(uint32_t at)
{
    uint32_t i;

    for (i = 0; i < VRING_BUFFERS; i++) {
        *word(at + VRING_AT_EMPTY + 4 * i) = i;
    }
    *word(at + VRING_AT_EMPTY_INDEX) = VRING_BUFFERS;
}

/* Whatever is not there will not come: a wait ends at once. */
static void make(void)
{
    memory = calloc(1, TRANSFER_BYTES);
    clear_ring(TRANSFER_AT_RING_TO_CORE);
    clear_ring(TRANSFER_AT_RING_TO_LINUX);
    *word(TRANSFER_AT_OVER) = 1;
    rings = waits = sent = taken = 0;
    memset(&buffer, 0, sizeof buffer);
    memset(&transfer, 0, sizeof transfer);
    memset(message, 0, MESSAGE_BYTES);
    port.ring = ring;
    port.wait = wait;
    buffer.data = memory;
    buffer.length = TRANSFER_BYTES;
    transfer.memory = &buffer;
    transfer.port = &port;
    CHECK_EQUAL(transfer_open(&transfer), HYTHE_OK);
}

static uint8_t byte_at(uint32_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

/* Linux sends a fragment that holds what stands at `at` of its message. */
static void linux_sends(uint32_t at, uint32_t bytes, uint32_t total)
{
    uint32_t number = sent % VRING_BUFFERS;
    uint32_t place = TRANSFER_AT_BUFFERS_TO_CORE + number * VRING_BUFFER_BYTES;
    uint32_t i;

    word(place)[TOTAL] = total;
    word(place)[LENGTH] = bytes;
    for (i = 0; i < bytes && i < VRING_FRAGMENT_BYTES; i++) {
        memory[place + VRING_HEADER_BYTES + i] = byte_at(at + i);
    }
    *word(TRANSFER_AT_RING_TO_CORE + VRING_AT_FILLED + 8 * number) = number;
    sent++;
    *word(TRANSFER_AT_RING_TO_CORE + VRING_AT_FILLED_INDEX) = sent;
}

static void linux_sends_message(uint32_t total)
{
    uint32_t at;

    for (at = 0; at < total; at += VRING_FRAGMENT_BYTES) {
        uint32_t left = total - at;
        linux_sends(at, left < VRING_FRAGMENT_BYTES ? left : VRING_FRAGMENT_BYTES, total);
    }
}

/* Linux takes a fragment to `to`, and gives its buffer back; returns its bytes. */
static uint32_t linux_takes(uint8_t *to, uint32_t total)
{
    uint32_t entry = TRANSFER_AT_RING_TO_LINUX + VRING_AT_FILLED + taken % VRING_BUFFERS * 8;
    uint32_t place = TRANSFER_AT_BUFFERS_TO_LINUX + *word(entry) * VRING_BUFFER_BYTES;
    uint32_t bytes = word(place)[LENGTH];

    CHECK_EQUAL(word(place)[TOTAL], total);
    CHECK_EQUAL(*word(entry + 4), VRING_HEADER_BYTES + bytes);
    memcpy(to, memory + place + VRING_HEADER_BYTES, bytes);
    *word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_EMPTY + taken % VRING_BUFFERS * 4) = *word(entry);
    taken++;
    *word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_EMPTY_INDEX) = VRING_BUFFERS + taken;
    return bytes;
}

static void messages_of_any_length_come_whole(void)
{
    static const uint32_t lengths[] = {1, 7, 8, 495, 496, 497, 1000, MESSAGE_BYTES};
    uint32_t i;
    uint32_t at;

    make();
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        linux_sends_message(lengths[i]);
        CHECK_EQUAL(transfer_receive(&transfer, message, MESSAGE_BYTES), lengths[i]);
        for (at = 0; at < lengths[i] && message[at] == byte_at(at); at++) {
        }
        CHECK_EQUAL(at, lengths[i]);
    }
    CHECK_EQUAL(*word(TRANSFER_AT_RING_TO_CORE + VRING_AT_EMPTY_INDEX), VRING_BUFFERS + sent);
    CHECK_EQUAL(transfer_receive(&transfer, message, MESSAGE_BYTES), 0);
    free(memory);
}

static void a_message_is_gathered_from_any_places(void)
{
    static const uint32_t parts[] = {24, 1, 320, 495, 496, 700};
    static const uint32_t fragments[] = {496, 496, 496, 496, 52};
    uint8_t from[2036];
    uint8_t got[2036];
    uint32_t at = 0;
    uint32_t i;

    make();
    for (i = 0; i < sizeof from; i++) {
        from[i] = byte_at(i);
    }
    transfer_begin(&transfer, sizeof from);
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        CHECK(transfer_put(&transfer, from + at, parts[i]));
        at += parts[i];
    }
    CHECK_EQUAL(at, sizeof from);
    for (at = i = 0; i < sizeof fragments / sizeof fragments[0]; i++) {
        uint32_t bytes = linux_takes(got + at, sizeof from);
        CHECK_EQUAL(bytes, fragments[i]);
        at += bytes;
    }
    CHECK(memcmp(got, from, sizeof from) == 0);
    free(memory);
}

static void a_ring_goes_round(void)
{
    uint32_t i;

    make();
    for (i = 0; i < 3 * VRING_BUFFERS; i++) {
        linux_sends_message(8);
        CHECK_EQUAL(transfer_receive(&transfer, message, MESSAGE_BYTES), 8);
        transfer_begin(&transfer, 8);
        CHECK(transfer_put(&transfer, message, 8));
        CHECK_EQUAL(linux_takes(message, 8), 8);
    }
    free(memory);
}

/* One fragment, and what comes of it. */
static uint32_t received(uint32_t bytes, uint32_t total)
{
    uint32_t result;

    make();
    linux_sends(0, bytes, total);
    result = transfer_receive(&transfer, message, 512);
    free(memory);
    return result;
}

static void what_makes_no_sense_ends_the_transfer(void)
{
    CHECK_EQUAL(received(8, 8), 8);
    CHECK_EQUAL(received(0, 8), 0);
    CHECK_EQUAL(received(0, 0), 0);
    CHECK_EQUAL(received(9, 8), 0);
    CHECK_EQUAL(received(497, 497), 0);
    CHECK_EQUAL(received(8, 513), 0);
    CHECK_EQUAL(received(8, UINT32_MAX), 0);
    CHECK_EQUAL(received(UINT32_MAX, UINT32_MAX), 0);
    /* What follows would not be aligned. */
    CHECK_EQUAL(received(7, 16), 0);
    make();
    *word(TRANSFER_AT_RING_TO_CORE + VRING_AT_FILLED_INDEX) = VRING_BUFFERS + 1;
    CHECK_EQUAL(transfer_receive(&transfer, message, MESSAGE_BYTES), 0);
    *word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_EMPTY_INDEX) = VRING_BUFFERS + 1;
    transfer_begin(&transfer, 8);
    CHECK(!transfer_put(&transfer, message, 8));
    free(memory);
}

static void numbers_of_buffers_stay_within_the_memory(void)
{
    make();
    linux_sends(0, 8, 8);
    *word(TRANSFER_AT_RING_TO_CORE + VRING_AT_FILLED) = UINT32_MAX;
    *word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_EMPTY) = UINT32_MAX;
    /* The last buffer, which holds nothing. */
    CHECK_EQUAL(transfer_receive(&transfer, message, MESSAGE_BYTES), 0);
    transfer_begin(&transfer, 8);
    CHECK(transfer_put(&transfer, message, 8));
    free(memory);
}

static int always(const void *context)
{
    (void)context;
    return 1;
}

static void a_full_ring_is_waited_for_until_the_end(void)
{
    make();
    transfer_begin(&transfer, VRING_FRAGMENT_BYTES * VRING_BUFFERS + 8);
    for (uint32_t i = 0; i < VRING_BUFFERS; i++) {
        CHECK(transfer_put(&transfer, message, VRING_FRAGMENT_BYTES));
    }
    CHECK(!transfer_put(&transfer, message, 8));
    CHECK_EQUAL(waits, 1);
    CHECK(*word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_SENDER_SLEEPS) % 2 == 0);
    free(memory);
}

static void a_sleep_is_rung_for_once(void)
{
    make();
    transfer.should_end = always;
    transfer_begin(&transfer, 24);
    *word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_RECEIVER_SLEEPS) = 1;
    CHECK(transfer_put(&transfer, message, 24));
    CHECK_EQUAL(rings, 1);
    transfer_begin(&transfer, 24);
    CHECK(transfer_put(&transfer, message, 24));
    CHECK_EQUAL(rings, 1);
    *word(TRANSFER_AT_RING_TO_LINUX + VRING_AT_RECEIVER_SLEEPS) = 3;
    transfer_begin(&transfer, 24);
    CHECK(transfer_put(&transfer, message, 24));
    CHECK_EQUAL(rings, 2);
    free(memory);
}

static void memory_that_is_too_short_or_not_aligned_is_refused(void)
{
    make();
    buffer.length = TRANSFER_BYTES - 1;
    CHECK_EQUAL(transfer_open(&transfer), HYTHE_E_LENGTH);
    buffer.length = TRANSFER_BYTES;
    buffer.data = memory + 4;
    CHECK_EQUAL(transfer_open(&transfer), HYTHE_E_LENGTH);
    free(memory);
}

void test_vring(void)
{
    RUN(messages_of_any_length_come_whole);
    RUN(a_message_is_gathered_from_any_places);
    RUN(a_ring_goes_round);
    RUN(what_makes_no_sense_ends_the_transfer);
    RUN(numbers_of_buffers_stay_within_the_memory);
    RUN(a_full_ring_is_waited_for_until_the_end);
    RUN(a_sleep_is_rung_for_once);
    RUN(memory_that_is_too_short_or_not_aligned_is_refused);
}
