/*
 * A test is a function; CHECK counts what failed in it and says where. main.c runs them all and
 * prints the sum.
 */
#ifndef TEST_H
#define TEST_H

#include <stdio.h>

struct test_sum {
    unsigned passed;
    unsigned failed;
    unsigned broken_checks;
};

extern struct test_sum test_sum;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            test_sum.broken_checks++;                                                              \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
        }                                                                                          \
    } while (0)

/* Shows both values: for results and words. */
#define CHECK_EQUAL(actual, expected)                                                              \
    do {                                                                                           \
        long long actual_ = (long long)(actual);                                                   \
        long long expected_ = (long long)(expected);                                               \
        if (actual_ != expected_) {                                                                \
            test_sum.broken_checks++;                                                              \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, actual_,          \
                   expected_);                                                                     \
        }                                                                                          \
    } while (0)

#define RUN(test) run_test(#test, test)

void run_test(const char *name, void (*test)(void));

void test_queue(void);
void test_layout(void);
void test_link(void);
void test_endpoint(void);
void test_events(void);
void test_requests(void);
void test_client(void);
void test_rpc(void);
void test_shm(void);
void test_sem(void);
void test_mq(void);
void test_flows(void);
void test_stopped(void);
void test_hostile(void);
void test_sessions(void);
void test_random(void);
void test_vectors(void);
void test_histogram(void);
void test_ports(void);
void test_lies(void);
void test_held(void);
void test_gate(void);
void test_task(void);
void test_ended(void);
void test_vring(void);

#endif
