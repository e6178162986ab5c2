/*
 * The 32 bytes that the payload of a call and of its reply begins with (spec/services.md), as eight
 * words, and what all calls have in common. Used by rpc.c, services.c, service.c and the tests. The
 * bytes may stand at any alignment: what a process forwards begins where it likes.
 */
#ifndef HYTHE_CALL_H
#define HYTHE_CALL_H

#include "hythe_rt.h"

#define HYTHE_CALL_BYTES 32u
#define HYTHE_CALL_OWN_METHOD_MAX 0x7FFFFFFFu
#define HYTHE_CALL_NO_TIMEOUT 0xFFFFFFFFu

enum {
    HYTHE_CALL_METHOD = 0,
    HYTHE_CALL_TASK = 1,
    HYTHE_CALL_TIMEOUT = 2,
    HYTHE_CALL_FLAGS = 3,
    HYTHE_CALL_ARGUMENT = 4,
    /* Of a reply. */
    HYTHE_CALL_RESULT = 1,
    HYTHE_CALL_VALUE = 2,
    HYTHE_CALL_LENGTH = 7,
    HYTHE_CALL_WORDS = 8
};

/* In word HYTHE_CALL_RESULT of the reply to a program's own method; 0: done; more: its number. */
enum {
    HYTHE_CALL_NO_SUCH_METHOD = -38,
    HYTHE_CALL_TOO_LARGE = -90
};

/* Reads each byte once. */
void hythe_call_read(const volatile uint8_t *from, uint32_t words[HYTHE_CALL_WORDS]);

/* Writes so many bytes of words, little endian, at any alignment. */
void hythe_words_write(volatile uint8_t *to, const uint32_t *words, uint32_t bytes);

void hythe_call_write(volatile uint8_t *to, const uint32_t words[HYTHE_CALL_WORDS]);

/* Byte for byte, in order: Linux may write what is read meanwhile. */
void hythe_bytes_copy(uint8_t *to, const volatile uint8_t *from, uint32_t bytes);

/*
 * As hythe_request_lease(), for so many bytes behind the header. HYTHE_E_LENGTH: the slot is too
 * small, and given up.
 */
int hythe_call_lease(struct hythe_client *client, struct hythe_buffer *buffer, uint32_t bytes,
                     uint32_t timeout_ms);

/*
 * Calls with this header and payload, whose size the header has, and waits for the answer, which is
 * to be released. Results as hythe_call_lease() and hythe_call().
 */
int hythe_call_ask(struct hythe_client *client, const uint32_t words[HYTHE_CALL_WORDS],
                   const void *payload, struct hythe_buffer *answer, uint32_t timeout_ms);

/* Counts that something came over this endpoint which is no call, or no answer. */
void hythe_call_lied(struct hythe_endpoint *endpoint);

/* The same, and gives it up: HYTHE_E_MALFORMED. */
int hythe_call_refuse(struct hythe_buffer *buffer);

#endif
