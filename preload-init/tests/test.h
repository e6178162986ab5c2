/*
 * A test is a function; CHECK counts what failed in it and says where. unit.c runs them all and
 * prints the sum.
 */
#ifndef TEST_H
#define TEST_H

#include <stdio.h>

extern unsigned test_broken_checks;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            test_broken_checks++;                                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
        }                                                                                          \
    } while (0)

/* Shows both values. */
#define CHECK_EQUAL(actual, expected)                                                              \
    do {                                                                                           \
        long long actual_ = (long long)(actual);                                                   \
        long long expected_ = (long long)(expected);                                               \
        if (actual_ != expected_) {                                                                \
            test_broken_checks++;                                                                  \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, actual_,          \
                   expected_);                                                                     \
        }                                                                                          \
    } while (0)

/* Shows both texts. */
#define CHECK_TEXT(actual, expected)                                                               \
    do {                                                                                           \
        const char *actual_ = (actual);                                                            \
        const char *expected_ = (expected);                                                        \
        if (strcmp(actual_, expected_) != 0) {                                                     \
            test_broken_checks++;                                                                  \
            printf("%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #actual, actual_,      \
                   expected_);                                                                     \
        }                                                                                          \
    } while (0)

void test_vectors(void);
void test_damaged_packs(void);
void test_text(void);
void test_options(void);
void test_old_stat(void);

#endif
