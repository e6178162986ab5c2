/*
 * Tasks that do what tasks should not: run by behaviour.rs, a case for each first argument. With a
 * second argument it is a task that was spawned by the first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

/* Behind stdio.h, for pvm_catchout. */
#include <pvm3.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 100000000

static char *program;

static int spawn(const char *name)
{
    char *arguments[] = {(char *)name, "child", NULL};
    int task = 0;
    return pvm_spawn(program, arguments, PvmTaskDefault, "", 1, &task) == 1 ? task : -1;
}

static void send_int(int task, int tag, int value)
{
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    pvm_send(task, tag);
}

static int received_int(int task, int tag)
{
    int value = -1;
    pvm_recv(task, tag);
    pvm_upkint(&value, 1, 1);
    return value;
}

static void both(int is_child)
{
    int other = is_child ? pvm_parent() : spawn("both"), sent, bytes, tag, source;
    char *data = calloc(1, MANY);
    sent = pvm_psend(other, 1, data, MANY, PVM_BYTE);
    pvm_bufinfo(pvm_recv(other, 1), &bytes, &tag, &source);
    printf("sent %d received %d\n", sent, bytes);
    free(data);
}

static void limit(int is_child)
{
    static char data[1000000];
    int child, sent = 0, count = 0;
    if (is_child) {
        pvm_parent();
        pause();
        return;
    }
    child = spawn("limit");
    while (sent == 0 && count < 1000) {
        sent = pvm_psend(child, 1, data, sizeof data, PVM_BYTE);
        count += sent == 0;
    }
    printf("%s sent, then %d\n", count >= 3 ? "some" : "too few", sent);
    pvm_sendsig(child, SIGKILL);
}

static void unwanted(int is_child)
{
    static char data[1000];
    int child, result, count;
    if (is_child) {
        for (count = 0; count < 2000; count++)
            pvm_psend(pvm_parent(), 7, data, sizeof data, PVM_BYTE);
        send_int(pvm_parent(), 8, 5);
        return;
    }
    child = spawn("unwanted");
    result = pvm_recv(child, 8);
    printf("behind a full inbox: %d\n", result);
    for (count = 0; count < 2000 && pvm_recv(child, 7) > 0;)
        count++;
    printf("unwanted %d, wanted %d\n", count, received_int(child, 8));
}

static void notice(int is_child)
{
    struct timeval soon = {0, 200000};
    int child;
    if (is_child) {
        send_int(pvm_parent(), 1, 1);
        pause();
        return;
    }
    child = spawn("notice");
    pvm_notify(PvmTaskExit, 9, 1, &child);
    received_int(child, 1);
    pvm_sendsig(child, SIGKILL);
    printf("notice of the child: %d\n", received_int(-1, 9) == child);
    printf("no more: %d\n", pvm_trecv(-1, 9, &soon));
}

static void meet(int is_child, int reduces)
{
    int child, value = 1, tag = 5;
    const char *name = reduces ? "reduce" : "barrier";
    if (is_child) {
        pvm_joingroup("g");
        send_int(pvm_parent(), 1, 1);
        /* The other waits by then. */
        sleep(3);
        raise(SIGKILL);
    }
    pvm_joingroup("g");
    child = spawn(name);
    received_int(child, 1);
    if (reduces)
        printf("%s %d\n", name, pvm_reduce(PvmSum, &value, 1, PVM_INT, tag, "g", 0));
    else
        printf("%s %d\n", name, pvm_barrier("g", 2));
}

/* Barriers of a frozen group are messages of its members. */
static void frozen(int is_child)
{
    int first;
    pvm_joingroup("g");
    if (!is_child)
        spawn("frozen");
    pvm_freezegroup("g", 2);
    first = pvm_barrier("g", 2);
    if (is_child) {
        /* The other waits by then. */
        sleep(3);
        raise(SIGKILL);
    }
    printf("barrier %d then %d\n", first, pvm_barrier("g", -1));
}

static void mailbox(int is_child)
{
    struct pvmmboxinfo *classes;
    int child, value, count;
    if (is_child) {
        usleep(100000);
        value = 5;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&value, 1, 1);
        pvm_putinfo("a", pvm_getsbuf(), PvmMboxDefault);
        value = 6;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&value, 1, 1);
        pvm_putinfo("b", pvm_getsbuf(), PvmMboxPersistent);
        received_int(pvm_parent(), 1);
        return;
    }
    child = spawn("mailbox");
    pvm_recvinfo("a", 0, PvmMboxWaitForInfo);
    pvm_upkint(&value, 1, 1);
    printf("waited for %d\n", value);
    pvm_recvinfo("b", 0, PvmMboxWaitForInfo);
    pvm_notify(PvmTaskExit, 9, 1, &child);
    send_int(child, 1, 1);
    received_int(-1, 9);
    printf("gone %d\n", pvm_recvinfo("a", 0, PvmMboxDefault));
    pvm_recvinfo("b", 0, PvmMboxDefault);
    pvm_upkint(&value, 1, 1);
    pvm_getmboxinfo("b", &count, &classes);
    printf("stays %d owner %d\n", value, classes[0].mi_owners[0]);
}

/* Takes the message with the greatest tag. */
static int greatest_tag(int buffer, int task, int tag)
{
    int bytes, found, source;
    (void)task;
    pvm_bufinfo(buffer, &bytes, &found, &source);
    return found < tag ? 0 : found;
}

static void match(void)
{
    int own = pvm_mytid(), bytes, tag, source;
    for (int one = 1; one <= 3; one++)
        send_int(own, 950 + one, one);
    while (pvm_probe(own, 953) == 0)
        ;
    pvm_recvf(greatest_tag);
    pvm_bufinfo(pvm_recv(own, 950), &bytes, &tag, &source);
    printf("greatest tag %d\n", tag);
    pvm_recvf(NULL);
    pvm_bufinfo(pvm_recv(own, -1), &bytes, &tag, &source);
    printf("next tag %d\n", tag);
}

static void output(int is_child)
{
    FILE *caught;
    char line[256], *behind;
    if (is_child) {
        printf("before the end");
        fflush(stdout);
        raise(SIGKILL);
    }
    caught = tmpfile();
    pvm_catchout(caught);
    spawn("output");
    pvm_exit();
    rewind(caught);
    while (fgets(line, sizeof line, caught)) {
        behind = strchr(line, ']');
        printf("[TASK%s", behind ? behind : "?");
    }
}

static void handle(int number)
{
    int value = 3;
    (void)number;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    printf("in the handler: %d\n", pvm_send(pvm_mytid(), 1));
    fflush(stdout);
}

/* A program that is told to stop says so to others while it waits. */
static void interrupted(void)
{
    struct timeval long_after = {60, 0};
    int value = 0;
    pvm_mytid();
    signal(SIGALRM, handle);
    ualarm(100000, 0);
    printf("received %d\n", pvm_trecv(-1, 1, &long_after) > 0);
    pvm_upkint(&value, 1, 1);
    printf("the value is %d\n", value);
}

static const struct itimerval often = {{0, 40}, {0, 40}}, never = {{0, 0}, {0, 0}};
static volatile sig_atomic_t signals, refused;

static void count(int number)
{
    (void)number;
    signals++;
    refused += pvm_getsbuf() == PvmSysErr;
}

/* Signals meet calls at each of their steps. */
static void storm(void)
{
    int wrong = 0;
    pvm_setopt(PvmAutoErr, 0);
    signal(SIGALRM, count);
    setitimer(ITIMER_REAL, &often, NULL);
    while (signals < 20000) {
        wrong += pvm_getsbuf() != 0;
        pvm_strerror();
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("refused in calls: %d, else: %d\n", refused > 0, wrong);
}

/* Visits of a signal handler to a call that waits, which ends when the other task is told to. */
static volatile sig_atomic_t waits, visits;
static int other, asked;
static struct timespec since;

static void visit(int number)
{
    struct timespec now;
    int is_refused = pvm_getsbuf() == PvmSysErr;
    (void)number;
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* The call begins. One that asks the machine first and then waits begins its wait later, and
     * lets handlers in when it has waited for a moment. */
    if (!waits || (is_refused && (visits < 5 || now.tv_sec - since.tv_sec < 2)))
        return;
    visits += !is_refused;
    refused += is_refused;
    if (visits == 5)
        since = now;
    /* It looks for members that have gone several times a second. */
    if (visits < 20 || now.tv_sec - since.tv_sec < 4)
        return;
    waits = 0;
    setitimer(ITIMER_REAL, &never, NULL);
    asked = pvm_newcontext();
    send_int(other, 961, 1);
}

static int first_of_all(int buffer, int task, int tag)
{
    int bytes, found, source;
    pvm_bufinfo(buffer, &bytes, &found, &source);
    return source == task && found == tag;
}

static int wait_for_other(int step, int is_child)
{
    int value = 1;
    switch (step) {
    case 0:
        if (is_child)
            return send_int(other, 962, 1), 0;
        pvm_recvf(first_of_all);
        value = pvm_recv(other, 962);
        pvm_recvf(NULL);
        return value < 0 ? value : 0;
    case 1:
        return pvm_barrier("v", 2);
    case 2:
        return pvm_freezegroup("v", 2);
    case 3:
        return pvm_barrier("v", 2);
    case 4:
        return pvm_reduce(PvmSum, &value, 1, PVM_INT, 963, "v", 0);
    default:
        if (!is_child)
            return pvm_recvinfo("v", 0, PvmMboxWaitForInfo) < 0;
        pvm_initsend(PvmDataDefault);
        return pvm_putinfo("v", pvm_getsbuf(), PvmMboxDefault);
    }
}

static void visited(int is_child)
{
    static const char *names[] = {"recvf",          "barrier", "freeze",
                                  "frozen barrier", "reduce",  "mailbox"};
    int step, outcome;
    pvm_setopt(PvmAutoErr, 0);
    if (!is_child)
        pvm_joingroup("v"); /* The first member, root of the reduction. */
    other = is_child ? pvm_parent() : spawn("visited");
    if (is_child) {
        pvm_joingroup("v");
        send_int(other, 960, 1);
    } else {
        received_int(other, 960);
        signal(SIGALRM, visit);
    }
    for (step = 0; step < 6; step++) {
        if (is_child) {
            received_int(other, 961);
            wait_for_other(step, 1);
            continue;
        }
        visits = refused = 0;
        waits = 1;
        setitimer(ITIMER_REAL, &often, NULL);
        outcome = wait_for_other(step, 0);
        printf("%s %d refused %d\n", names[step], outcome, refused > 0);
        if (step == 1)
            printf("asking meanwhile %d\n", asked);
    }
    if (is_child)
        received_int(other, 961);
    else
        send_int(other, 961, 1);
}

/* A process that a member forks outlives it. */
static void forked(int is_child)
{
    int child, process;
    if (is_child) {
        pvm_joingroup("g");
        process = fork();
        if (process == 0) {
            setsid();
            /* Longer than the test waits. */
            sleep(200);
            _exit(0);
        }
        send_int(pvm_parent(), 1, process);
        /* The other waits by then. */
        sleep(3);
        raise(SIGKILL);
    }
    pvm_joingroup("g");
    child = spawn("forked");
    process = received_int(child, 1);
    printf("barrier %d\n", pvm_barrier("g", 2));
    printf("the other runs: %d\n", kill(process, 0) == 0);
    kill(process, SIGKILL);
}

#define OWN_FILES 60

static int own_files[OWN_FILES];

static int are_untouched(void)
{
    struct stat found;
    int index, untouched = 1;
    for (index = 0; index < OWN_FILES; index++)
        untouched &= fstat(own_files[index], &found) == 0 && found.st_size == 3 &&
                     lseek(own_files[index], 0, SEEK_CUR) == 0;
    return untouched;
}

static void say_files(void)
{
    printf("files untouched: %d\n", are_untouched());
}

/* It closes all descriptors that it finds open, and opens files of its own. */
static void open_own_files(void)
{
    int index;
    for (index = 3; index < 1024; index++)
        close(index);
    for (index = 0; index < OWN_FILES; index++) {
        own_files[index] = open(".", O_TMPFILE | O_RDWR, 0600);
        if (pwrite(own_files[index], "own", 3, 0) != 3)
            printf("no file of its own\n");
    }
}

static void closed(int ends)
{
    static const int data = 1;
    int own, status = -1;
    pid_t child;
    /* Before the library's own, so that it is called behind that. */
    if (!ends)
        atexit(say_files);
    pvm_setopt(PvmAutoErr, 0);
    own = pvm_mytid();
    pvm_joingroup("g");
    printf("to itself: %d\n", pvm_psend(own, 1, (char *)&data, 1, PVM_INT));
    open_own_files();
    printf("to itself: %d\n", pvm_psend(own, 1, (char *)&data, 1, PVM_INT));
    printf("to another: %d\n", pvm_psend(own + 1, 1, (char *)&data, 1, PVM_INT));
    printf("a question: %d\n", pvm_joingroup("h"));
    printf("a message: %d\n", pvm_recv(-1, 7));
    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(are_untouched() ? 0 : 1);
    waitpid(child, &status, 0);
    printf("in a forked process: %d\n", status);
    if (!ends)
        return;
    printf("left: %d\n", pvm_exit());
    say_files();
}

/* How many descriptors become readable? */
static int is_readable(long milliseconds)
{
    struct timeval timeout = {milliseconds / 1000, milliseconds % 1000 * 1000};
    int *descriptors, count = pvm_getfds(&descriptors), one, last = 0;
    fd_set set;
    FD_ZERO(&set);
    for (one = 0; one < count; one++) {
        FD_SET(descriptors[one], &set);
        last = descriptors[one] > last ? descriptors[one] : last;
    }
    return select(last + 1, &set, NULL, NULL, &timeout);
}

/* Sleeps until a message has come, and takes it. Nothing had so often at most; else 0. */
static int wait_by_select(int task, int tag, int most)
{
    int looks = 0;
    while (pvm_nrecv(task, tag) == 0) {
        if (is_readable(60000) <= 0 || ++looks == most)
            return 0;
        usleep(2000);
    }
    return 1;
}

/* An event loop that waits by select. */
static void events(int is_child)
{
    int child, round, looks, quiet = 0;
    if (is_child) {
        for (round = 0; round < 3; round++) {
            received_int(pvm_parent(), 1);
            usleep(200000);
            send_int(pvm_parent(), 2, round);
            send_int(pvm_parent(), 3, round);
        }
        received_int(pvm_parent(), 1);
        return;
    }
    child = spawn("events");
    for (round = 0; round < 3; round++) {
        send_int(child, 1, round);
        printf("round %d: came %d\n", round, wait_by_select(child, 2, 50));
        pvm_recv(child, 3);
        /* Nothing more comes before it is asked for. */
        for (looks = 0, quiet = 0; looks < 50 && !quiet; looks++)
            quiet = pvm_nrecv(-1, -1) == 0 && is_readable(50) == 0;
        printf("then quiet %d\n", quiet);
    }
    pvm_notify(PvmTaskExit, 9, 1, &child);
    send_int(child, 1, 1);
    /* A task that ends is something that happens, until it is known to have ended. */
    printf("its end: came %d\n", wait_by_select(-1, 9, 5000));
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int is_child = argc > 2;
    program = argv[0];
    if (strcmp(name, "both") == 0)
        both(is_child);
    else if (strcmp(name, "limit") == 0)
        limit(is_child);
    else if (strcmp(name, "unwanted") == 0)
        unwanted(is_child);
    else if (strcmp(name, "notice") == 0)
        notice(is_child);
    else if (strcmp(name, "barrier") == 0 || strcmp(name, "reduce") == 0)
        meet(is_child, name[0] == 'r');
    else if (strcmp(name, "frozen") == 0)
        frozen(is_child);
    else if (strcmp(name, "mailbox") == 0)
        mailbox(is_child);
    else if (strcmp(name, "match") == 0)
        match();
    else if (strcmp(name, "output") == 0)
        output(is_child);
    else if (strcmp(name, "signal") == 0)
        interrupted();
    else if (strcmp(name, "storm") == 0)
        storm();
    else if (strcmp(name, "visited") == 0)
        visited(is_child);
    else if (strcmp(name, "events") == 0)
        events(is_child);
    else if (strcmp(name, "forked") == 0)
        forked(is_child);
    else if (strncmp(name, "closed", 6) == 0) {
        closed(strcmp(name, "closed-left") == 0);
        return 0;
    } else
        printf("%d\n", pvm_mytid());
    pvm_exit();
    return 0;
}
