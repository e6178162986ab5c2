/* Runs every unit test. With an argument: the folder of the golden vectors. */
#include <string.h>

#include "test.h"
#include "vectors.h"

struct test_sum test_sum;

void run_test(const char *name, void (*test)(void))
{
    test_sum.broken_checks = 0;
    test();
    if (test_sum.broken_checks == 0) {
        test_sum.passed++;
    } else {
        test_sum.failed++;
        printf("FAILED %s\n", name);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER-OF-VECTORS\n", argv[0]);
        return 2;
    }
    vectors_folder = argv[1];
    test_layout();
    test_queue();
    test_link();
    test_endpoint();
    test_flows();
    test_stopped();
    test_events();
    test_requests();
    test_client();
    test_rpc();
    test_shm();
    test_sem();
    test_mq();
    test_hostile();
    test_sessions();
    test_random();
    test_vectors();
    test_histogram();
    test_ports();
    test_lies();
    test_held();
    test_gate();
    test_task();
    test_ended();
    test_vring();
    printf("%u passed, %u failed\n", test_sum.passed, test_sum.failed);
    return test_sum.failed != 0;
}
