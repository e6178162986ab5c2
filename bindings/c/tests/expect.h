/*
 * What the programs of these tests begin with: the library, and a condition that ends the program
 * with its line where it does not hold.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <hythe.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s (%s)\n", __LINE__, #condition, hythe_last_error());                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
