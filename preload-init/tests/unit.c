/*
 * Runs every unit test. Arguments: the file of golden vectors, and a folder where its packs are
 * left as seeds for the fuzzer.
 */
#include <stddef.h>

#include "test.h"
#include "vectors.h"

unsigned test_broken_checks;

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"golden vectors: accepted and refused packs", test_vectors},
    {"packs with one bit changed or cut anywhere", test_damaged_packs},
    {"texts and numbers", test_text},
    {"options and environment", test_options},
    {"system calls tell what the C library tells", test_old_stat},
};

int main(int argc, char **argv)
{
    unsigned failed = 0;
    size_t i;

    if (argc != 3) {
        fprintf(stderr, "usage: %s VECTORS SEEDS\n", argv[0]);
        return 2;
    }
    vectors_path = argv[1];
    vectors_seeds = argv[2];
    for (i = 0; i < sizeof tests / sizeof *tests; i++) {
        test_broken_checks = 0;
        tests[i].run();
        printf("%s %s\n", test_broken_checks == 0 ? "ok    " : "FAILED", tests[i].name);
        failed += test_broken_checks != 0;
    }
    return failed != 0;
}
