/*
 * What Linux orders: one buffer over `control`, which begins with these words, little endian. The
 * Linux side of the same words is in bench/src/core/order.rs.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

enum order_system {
    ORDER_HYTHE = 1,
    /* The buffer is the memory of the copying transfer (transfer.h). */
    ORDER_COPY = 2
};

enum order_wait {
    ORDER_POLL = 1,
    ORDER_BELL = 2
};

enum order_payload {
    ORDER_UNTOUCHED = 1,
    ORDER_FILLED = 2
};

/* Words at the start of the buffer. */
enum {
    ORDER_AT_SYSTEM = 0,
    ORDER_AT_WAIT = 1,
    ORDER_AT_PAYLOAD = 2,
    ORDER_WORDS = 4
};

/* A private copy, read once. */
struct order {
    uint32_t system;
    uint32_t wait;
    uint32_t payload;
};

#endif
