/*
 * Brings a board up without any of the Linux software: this program is the agent and both
 * participants.
 *
 * usage: board-test IMAGES REFERENCE-DECODER FILE.mp3...
 *
 * Echo in every slot class, decoding compared sample for sample with the reference decoder, and one
 * side starting again while the other goes on. Ends with "N passed, M failed".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "agent.h"
#include "decode.h"
#include "echo.h"

struct test_sum test_sum;

/* What main() was given, for the tests. */
static const char *images;
static const char *reference;
static char **files;
static int file_count;

void run_test(const char *name, void (*test)(void))
{
    test_sum.broken_checks = 0;
    test();
    if (test_sum.broken_checks == 0) {
        test_sum.passed++;
        printf("ok %s\n", name);
    } else {
        test_sum.failed++;
        printf("FAILED %s\n", name);
    }
}

static int begin(struct agent *agent)
{
    int good = agent_begin(agent, images, "decoder") &&
               (linux_publish(&agent->side), agent_start_core(agent)) && wait_for_core(agent);

    CHECK(good);
    return good;
}

static void every_class_echoes_in_place(void)
{
    struct agent agent;
    int i;

    if (begin(&agent)) {
        CHECK(attach_all(&agent));
        for (i = 0; i < agent.board.class_count; i++) {
            agent.rings = 0;
            echo_rounds(&agent, (uint32_t)i, 300);
            CHECK(agent.rings > 0);
            echo_polling(&agent, (uint32_t)i, 300);
        }
    }
    agent_end(&agent);
}

static void each_file_decodes_to_the_reference(void)
{
    struct agent agent;
    int i;

    if (begin(&agent)) {
        for (i = 0; i < file_count; i++) {
            CHECK(attach_all(&agent));
            decode_file(&agent, files[i], reference);
        }
    }
    agent_end(&agent);
}

static void a_killed_core_comes_back_with_a_new_session(void)
{
    struct agent agent;
    uint32_t session;
    uint32_t round;

    if (begin(&agent)) {
        for (round = 0; round < 3; round++) {
            session = load(core_word(&agent.side, 8));
            CHECK(attach_all(&agent));
            echo_rounds(&agent, 0, 20);
            /* Left in the queues by the life that ends now. */
            linux_push(&agent.side, PING, linux_slot(&agent.side, 0, 700, 64));
            agent_stop_core(&agent, SIGKILL);
            CHECK(agent_start_core(&agent));
            CHECK(wait_for_session_after(&agent, session));
        }
        CHECK(attach_all(&agent));
        echo_rounds(&agent, 0, 20);
    }
    agent_end(&agent);
}

static void a_new_agent_and_new_attachments_are_answered(void)
{
    struct agent agent;
    uint32_t round;

    if (begin(&agent)) {
        for (round = 0; round < 5; round++) {
            CHECK(attach_all(&agent));
            linux_push(&agent.side, PING, linux_slot(&agent.side, 0, 700, 64));
            agent_ring(&agent);
            if (round % 2 == 1) {
                linux_publish(&agent.side);
                agent_ring(&agent);
                CHECK(wait_for_core(&agent));
            }
            CHECK(attach_all(&agent));
            echo_rounds(&agent, 1, 10);
        }
    }
    agent_end(&agent);
}

static void the_core_ends_when_it_is_told(void)
{
    struct agent agent;

    if (begin(&agent)) {
        int status = agent_stop_core(&agent, SIGTERM);
        CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM
                                  : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    agent_end(&agent);
}

/* The agent in a process of its own is killed: no core may stay behind. */
static void the_core_ends_with_its_agent(void)
{
    int report[2];
    pid_t core = 0;
    pid_t agent_process;
    int waited;

    CHECK_EQUAL(pipe(report), 0);
    fflush(NULL);
    agent_process = fork();
    if (agent_process == 0) {
        struct agent agent;
        int good = begin(&agent);
        ssize_t written = write(report[1], &agent.child, good ? sizeof agent.child : 0);
        /* The files go now; the core keeps its mappings. */
        agent.child = 0;
        agent_end(&agent);
        raise(SIGKILL);
        _exit((int)written);
    }
    close(report[1]);
    CHECK_EQUAL(read(report[0], &core, sizeof core), sizeof core);
    close(report[0]);
    waitpid(agent_process, NULL, 0);
    for (waited = 0; core > 0 && kill(core, 0) == 0 && waited < 500; waited++) {
        usleep(10000);
    }
    CHECK(core > 0 && kill(core, 0) != 0);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s IMAGES REFERENCE-DECODER FILE.mp3...\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    images = argv[1];
    reference = argv[2];
    files = argv + 3;
    file_count = argc - 3;
    RUN(every_class_echoes_in_place);
    RUN(each_file_decodes_to_the_reference);
    RUN(a_killed_core_comes_back_with_a_new_session);
    RUN(a_new_agent_and_new_attachments_are_answered);
    RUN(the_core_ends_when_it_is_told);
    RUN(the_core_ends_with_its_agent);
    printf("%u passed, %u failed\n", test_sum.passed, test_sum.failed);
    return test_sum.failed != 0;
}
