/* A task of a PVM machine of the hosts a and b, and c for some, and what it spawns: says what is
 * not as it has to be, and exits with how often that was. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <pvm3.h>

static int failures;

#define CHECK(what) check((what), #what, __LINE__)

static void check(int is_so, const char *what, int line) {
    if (!is_so) {
        printf("line %d: %s\n", line, what);
        fflush(stdout);
        failures++;
    }
}

/* The host's number in a task's. */
static int host_of(int task) { return pvm_tidtohost(task) >> 18; }

static int integer(void) {
    int value = -1;
    CHECK(pvm_upkint(&value, 1, 1) == 0);
    return value;
}

/* Sends to another child, hears from it, and says so. */
static void greet(int other) {
    int me = pvm_mytid();
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&me, 1, 1);
    CHECK(pvm_send(other, 5) == 0);
    CHECK(pvm_recv(other, 5) > 0 && integer() == other);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&failures, 1, 1);
    CHECK(pvm_send(pvm_parent(), 6) == 0);
}

/* Programs that never enrol, on b whether that is in the machine or not, until its parent says
 * that it is enough. */
static void spawn_for_ever(int number) {
    char seconds[32], *arguments[] = {seconds, NULL};
    int task;
    snprintf(seconds, sizeof seconds, "600.%d", number);
    while (pvm_probe(pvm_parent(), 7) == 0)
        pvm_spawn("sleep", arguments, PvmTaskHost, "b", 1, &task);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&failures, 1, 1);
    CHECK(pvm_send(pvm_parent(), 6) == 0);
}

/* Sends an integer. */
static int say(int task, int tag, int value) {
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    return pvm_send(task, tag);
}

static int heard(int task, int tag) {
    CHECK(pvm_recv(task, tag) > 0);
    return integer();
}

/* Exchanges a message with each task that its parent names, if it can, and says so. */
static void exchange(void) {
    int other;
    while ((other = heard(pvm_parent(), 8)) != 0) {
        int outcome = say(other, 9, 1);
        if (outcome == 0)
            CHECK(heard(other, 12) == other);
        CHECK(say(pvm_parent(), 10, outcome) == 0);
    }
}

/* What it is, for its parent; then it does what that wants. */
static int child(void) {
    int me = pvm_mytid(), count = 0, *siblings = NULL;
    char name[64];
    count = pvm_siblings(&siblings);
    printf("child on %d\n", host_of(me));
    fflush(stdout);
    gethostname(name, sizeof name);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&me, 1, 1);
    pvm_pkint(&count, 1, 1);
    pvm_pkint(siblings, count, 1);
    CHECK(pvm_send(pvm_parent(), 1) == 0);
    CHECK(pvm_recv(pvm_parent(), 2) > 0);
    int what = integer();
    if (what == 2)
        for (;;)
            pause();
    if (what == 1) {
        int members = integer();
        CHECK(pvm_joingroup("all") >= 0);
        CHECK(pvm_barrier("all", members) == 0);
        int sum = host_of(me);
        CHECK(pvm_reduce(PvmSum, &sum, 1, PVM_INT, 3, "all", 0) == 0);
        /* As the manual demands it: the root may ask later who is in the group. */
        CHECK(pvm_barrier("all", members) == 0);
    } else if (what == 3) {
        greet(integer());
    } else if (what == 4) {
        spawn_for_ever(integer());
    } else if (what == 5) {
        exchange();
    } else {
        pvm_recv(-1, 99);
    }
    pvm_exit();
    return failures;
}

/* Takes what a child says of itself: as many siblings as were spawned together, those. */
static void meet(const int *tasks, int count) {
    for (int index = 0; index < count; index++) {
        CHECK(pvm_recv(tasks[index], 1) > 0);
        CHECK(integer() == tasks[index]);
        CHECK(integer() == count);
        for (int sibling = 0; sibling < count; sibling++)
            CHECK(integer() == tasks[sibling]);
    }
}

static void tell(int *tasks, int count, int what, int members) {
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&what, 1, 1);
    pvm_pkint(&members, 1, 1);
    CHECK(pvm_mcast(tasks, count, 2) == 0);
}

static int spawn(char *self, int flags, char *where, int count, int *tasks) {
    char *arguments[] = {"child", NULL};
    return pvm_spawn(self, arguments, flags, where, count, tasks);
}

static void places(char *self) {
    int tasks[5], hosts = 0, formats = 0;
    struct pvmhostinfo *info = NULL;
    CHECK(pvm_config(&hosts, &formats, &info) == 0);
    CHECK(hosts == 2 && formats == 1);
    CHECK(strcmp(info[0].hi_name, "a") == 0 && host_of(info[0].hi_tid) == 1);
    CHECK(strcmp(info[1].hi_name, "b") == 0 && host_of(info[1].hi_tid) == 2);
    CHECK(pvm_mstat("a") == 0 && pvm_mstat("b") == 0 && pvm_mstat("c") == PvmNoHost);
    /* In turn, from the one behind its own on. */
    CHECK(spawn(self, PvmTaskDefault, NULL, 3, tasks) == 3);
    CHECK(host_of(tasks[0]) == 2 && host_of(tasks[1]) == 1 && host_of(tasks[2]) == 2);
    meet(tasks, 3);
    CHECK(spawn(self, PvmTaskHost, "b", 1, tasks + 3) == 1 && host_of(tasks[3]) == 2);
    meet(tasks + 3, 1);
    CHECK(spawn(self, PvmTaskHost | PvmHostCompl, "b", 1, tasks + 4) == 1);
    CHECK(host_of(tasks[4]) == 1);
    meet(tasks + 4, 1);
    struct pvmtaskinfo *rows = NULL;
    int count = 0;
    CHECK(pvm_tasks(0, &count, &rows) == 0 && count == 6);
    CHECK(pvm_tasks(info[1].hi_tid, &count, &rows) == 0 && count == 3);
    CHECK(rows[0].ti_host == info[1].hi_tid && rows[0].ti_ptid == pvm_mytid());
    int none;
    CHECK(spawn(self, PvmTaskHost, "c", 1, &none) == 0 && none == PvmNoHost);
    CHECK(spawn(self, PvmTaskArch, "CRAY", 1, &none) == 0 && none == PvmNoHost);
    CHECK(spawn("no-such-program", PvmTaskHost, "b", 1, &none) == 0 && none == PvmNoFile);
    /* A group of all. */
    CHECK(pvm_joingroup("all") == 0);
    tell(tasks, 5, 1, 6);
    CHECK(pvm_barrier("all", 6) == 0);
    CHECK(pvm_gsize("all") == 6);
    int sum = host_of(pvm_mytid());
    CHECK(pvm_reduce(PvmSum, &sum, 1, PVM_INT, 3, "all", 0) == 0);
    CHECK(sum == 1 + 2 + 1 + 2 + 2 + 1);
    CHECK(pvm_barrier("all", 6) == 0);
}

static void ends(char *self) {
    int tasks[2];
    CHECK(spawn(self, PvmTaskHost, "b", 2, tasks) == 2);
    meet(tasks, 2);
    CHECK(pvm_notify(PvmTaskExit, 7, 2, tasks) == 0);
    CHECK(pvm_pstat(tasks[0]) == 0);
    CHECK(pvm_kill(tasks[0]) == 0);
    CHECK(pvm_recv(-1, 7) > 0 && integer() == tasks[0]);
    CHECK(pvm_pstat(tasks[0]) == PvmNoTask);
    CHECK(pvm_sendsig(tasks[1], SIGKILL) == 0);
    CHECK(pvm_recv(-1, 7) > 0 && integer() == tasks[1]);
}

static void hosts(char *self) {
    int task, code = 0, count = 0, formats = 0;
    char *names[] = {"b"};
    struct pvmhostinfo *info = NULL;
    CHECK(pvm_addhosts(names, 1, &code) == 0 && code == PvmDupHost);
    CHECK(pvm_config(&count, &formats, &info) == 0 && count == 2);
    int old = info[1].hi_tid;
    CHECK(spawn(self, PvmTaskHost, "b", 1, &task) == 1);
    meet(&task, 1);
    CHECK(pvm_notify(PvmTaskExit, 7, 1, &task) == 0);
    CHECK(pvm_notify(PvmHostDelete, 8, 1, &old) == 0);
    CHECK(pvm_notify(PvmHostAdd, 9, 1, NULL) == 0);
    struct pvmtaskinfo *rows = NULL;
    int rows_count = 0;
    CHECK(pvm_tasks(task, &rows_count, &rows) == 0 && rows_count == 1);
    int process = rows[0].ti_pid;
    tell(&task, 1, 2, 0);
    /* Both are in one space of process ids. */
    CHECK(kill(process, 0) == 0);
    CHECK(pvm_delhosts(names, 1, &code) == 1 && code == 0);
    CHECK(pvm_recv(-1, 7) > 0 && integer() == task);
    CHECK(pvm_recv(-1, 8) > 0 && integer() == old);
    CHECK(pvm_mstat("b") == PvmNoHost);
    while (kill(process, 0) == 0)
        usleep(10000);
    CHECK(pvm_config(&count, &formats, &info) == 0 && count == 1);
    CHECK(pvm_delhosts(names, 1, &code) == 0 && code == PvmNoHost);
    names[0] = "c";
    CHECK(pvm_addhosts(names, 1, &code) == 0 && code < 0);
    names[0] = "b";
    CHECK(pvm_addhosts(names, 1, &code) == 1 && code > 0 && code != old);
    CHECK(pvm_recv(-1, 9) > 0 && integer() == 1 && integer() == code);
    CHECK(spawn(self, PvmTaskHost, "b", 1, &task) == 1 && pvm_tidtohost(task) == code);
    meet(&task, 1);
    CHECK(pvm_kill(task) == 0);
}

static void caught(char *self) {
    int task;
    pvm_catchout(stdout);
    CHECK(spawn(self, PvmTaskHost, "b", 1, &task) == 1);
    meet(&task, 1);
    pvm_kill(task);
}

/* Spawns so many of a program, and prints what they do. */
static void others(char **words) {
    int tasks[8], count = atoi(words[0]);
    pvm_catchout(stdout);
    CHECK(pvm_spawn(words[1], words + 2, PvmTaskDefault, NULL, count, tasks) == count);
}

/* Waits for the end of a task on b, and of b. */
static void lose(char *self) {
    int task, host;
    CHECK(spawn(self, PvmTaskHost, "b", 1, &task) == 1);
    meet(&task, 1);
    host = pvm_tidtohost(task);
    CHECK(pvm_notify(PvmTaskExit, 7, 1, &task) == 0);
    CHECK(pvm_notify(PvmHostDelete, 8, 1, &host) == 0);
    printf("waiting\n");
    fflush(stdout);
    CHECK(pvm_recv(-1, 7) > 0 && integer() == task);
    CHECK(pvm_recv(-1, 8) > 0 && integer() == host);
    CHECK(pvm_mstat("b") == PvmNoHost);
    CHECK(spawn(self, PvmTaskDefault, NULL, 1, &task) == 1 && host_of(task) == 1);
    meet(&task, 1);
    pvm_kill(task);
}

/* A host that comes when there are tasks on another one: those reach each other, and all meet. */
static void three(char *self) {
    int tasks[3], code = 0, count = 0;
    char *names[] = {"c"};
    CHECK(spawn(self, PvmTaskHost, "b", 1, tasks) == 1);
    meet(tasks, 1);
    CHECK(pvm_addhosts(names, 1, &code) == 1 && code > 0);
    CHECK(pvm_config(&count, NULL, NULL) == 0 && count == 3);
    CHECK(spawn(self, PvmTaskHost, "c", 1, tasks + 1) == 1);
    CHECK(pvm_tidtohost(tasks[1]) == code);
    meet(tasks + 1, 1);
    tell(tasks, 1, 3, tasks[1]);
    tell(tasks + 1, 1, 3, tasks[0]);
    for (int index = 0; index < 2; index++)
        CHECK(pvm_recv(tasks[index], 6) > 0 && integer() == 0);
    CHECK(spawn(self, PvmTaskDefault, NULL, 3, tasks) == 3);
    int sum = 0;
    for (int index = 0; index < 3; index++)
        sum += host_of(tasks[index]);
    CHECK(sum == 1 + 2 + 3);
    meet(tasks, 3);
    CHECK(pvm_joingroup("all") == 0);
    tell(tasks, 3, 1, 4);
    CHECK(pvm_barrier("all", 4) == 0);
    sum = host_of(pvm_mytid());
    CHECK(pvm_reduce(PvmSum, &sum, 1, PVM_INT, 3, "all", 0) == 0);
    CHECK(sum == 1 + 1 + 2 + 3);
    CHECK(pvm_barrier("all", 4) == 0);
}

/* Tasks on both other hosts, which wait for ever; then the first host is alone. */
static void alone(char *self) {
    char *names[] = {"b", "c"};
    int tasks[2], hosts[2], codes[2], count = 0;
    for (int index = 0; index < 2; index++) {
        struct pvmtaskinfo *rows = NULL;
        CHECK(spawn(self, PvmTaskHost, names[index], 1, tasks + index) == 1);
        meet(tasks + index, 1);
        hosts[index] = pvm_tidtohost(tasks[index]);
        CHECK(pvm_tasks(tasks[index], &count, &rows) == 0 && count == 1);
        printf("process %d\n", rows[0].ti_pid);
    }
    CHECK(pvm_notify(PvmTaskExit, 7, 2, tasks) == 0);
    CHECK(pvm_notify(PvmHostDelete, 8, 2, hosts) == 0);
    printf("waiting\n");
    fflush(stdout);
    for (int index = 0; index < 2; index++)
        CHECK(pvm_recv(-1, 7) > 0 && pvm_recv(-1, 8) > 0);
    CHECK(pvm_config(&count, NULL, NULL) == 0 && count == 1);
    CHECK(pvm_addhosts(names, 2, codes) == 0);
    CHECK(codes[0] == PvmNoHost && codes[1] == PvmNoHost);
    CHECK(spawn(self, PvmTaskHost, "b", 1, tasks) == 0 && tasks[0] == PvmNoHost);
}

/* A host goes while another task spawns there. */
static void race(char *self, int number) {
    char *names[] = {"b"};
    int task, code;
    CHECK(spawn(self, PvmTaskHost, "a", 1, &task) == 1);
    meet(&task, 1);
    tell(&task, 1, 4, number);
    for (int time = 0; time < 12; time++) {
        usleep(20000 + 7000 * (time % 5));
        CHECK(pvm_delhosts(names, 1, &code) == 1 && code == 0);
        if (time < 11)
            CHECK(pvm_addhosts(names, 1, &code) == 1 && code > 0);
    }
    pvm_initsend(PvmDataDefault);
    CHECK(pvm_send(task, 7) == 0);
    CHECK(pvm_recv(task, 6) > 0 && integer() == 0);
    printf("%d failures\nwaiting\n", failures);
    fflush(stdout);
    pvm_recv(-1, 99);
}

static long minutes(double seconds) {
    return (long)(seconds / 60 + (seconds < 0 ? -0.5 : 0.5));
}

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec / 1e6; }

/* What the clocks of all hosts say beside its own, and on b what they say there. */
static void clocks(char *self) {
    struct pvmhostinfo *info = NULL;
    int count = 0, task;
    CHECK(pvm_config(&count, NULL, &info) == 0);
    for (int index = 0; index < count; index++) {
        struct timeval clock, apart, own;
        CHECK(pvm_hostsync(info[index].hi_tid, &clock, &apart) == 0);
        CHECK(apart.tv_usec >= 0 && apart.tv_usec < 1000000);
        gettimeofday(&own, NULL);
        printf("from %d to %d: %ld minutes, %ld\n", host_of(pvm_mytid()), index + 1,
               minutes(seconds(apart)), minutes(seconds(own) - seconds(clock)));
    }
    CHECK(pvm_hostsync(9 << 18, NULL, NULL) == PvmNoHost);
    CHECK(pvm_hostsync(info[0].hi_tid, NULL, NULL) == 0);
    fflush(stdout);
    if (pvm_parent() > 0)
        return;
    char *arguments[] = {"clocks", NULL};
    pvm_catchout(stdout);
    CHECK(pvm_spawn(self, arguments, PvmTaskHost, info[1].hi_name, 1, &task) == 1);
}

/* Has a task on b, with which tasks of two other jobs exchange messages. */
static void serve(char *self) {
    int far, me = pvm_mytid();
    CHECK(spawn(self, PvmTaskHost, "b", 1, &far) == 1);
    meet(&far, 1);
    tell(&far, 1, 5, 0);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&me, 1, 1);
    pvm_pkint(&far, 1, 1);
    CHECK(pvm_putinfo("served", pvm_getsbuf(), PvmMboxDefault) >= 0);
    printf("waiting\n");
    fflush(stdout);
    for (int job = 0; job < 2; job++) {
        int other = heard(-1, 7);
        CHECK(say(far, 8, other) == 0);
        CHECK(say(other, 11, heard(far, 10)) == 0);
    }
    CHECK(say(far, 8, 0) == 0);
}

/* Another job, which has a task on b as well, or not. */
static void ask(char *self, int has_task) {
    int wanted = has_task ? 0 : PvmSysErr, me = pvm_mytid(), own;
    CHECK(pvm_recvinfo("served", 0, PvmMboxDefault) >= 0);
    int near = integer(), far = integer();
    if (has_task) {
        CHECK(spawn(self, PvmTaskHost, "b", 1, &own) == 1);
        meet(&own, 1);
    }
    CHECK(say(far, 12, me) == wanted);
    CHECK(say(near, 7, me) == 0);
    CHECK(heard(near, 11) == wanted);
    if (has_task) {
        CHECK(heard(far, 9) == 1);
        CHECK(pvm_kill(own) == 0);
    }
}

/* How many hosts there are. */
static void size(void) {
    int count = 0;
    CHECK(pvm_config(&count, NULL, NULL) == 0);
    printf("%d hosts\n", count);
}

/* A program that never enrols, and that only host b has, as its hostfile says where. */
static void by_hostfile(int is_there) {
    int task = 0, hosts = 0;
    struct pvmhostinfo *info = NULL;
    CHECK(pvm_config(&hosts, NULL, &info) == 0 && hosts == 2);
    CHECK(info[0].hi_speed == 1000 && info[1].hi_speed == 500);
    CHECK(pvm_spawn("only-on-b", NULL, PvmTaskHost, "a", 1, &task) == 0);
    CHECK(task == PvmNoFile);
    int started = pvm_spawn("only-on-b", NULL, PvmTaskHost, "b", 1, &task);
    CHECK(started == is_there);
    if (!is_there) {
        CHECK(task == PvmNoFile);
        return;
    }
    CHECK(host_of(task) == 2);
    CHECK(pvm_notify(PvmTaskExit, 7, 1, &task) >= 0);
    CHECK(pvm_recv(-1, 7) > 0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    pvm_setopt(PvmAutoErr, 0);
    if (pvm_mytid() < 0)
        return 100;
    if (strcmp(what, "child") == 0)
        return child();
    if (strcmp(what, "places") == 0)
        places(argv[0]);
    else if (strcmp(what, "ends") == 0)
        ends(argv[0]);
    else if (strcmp(what, "hosts") == 0)
        hosts(argv[0]);
    else if (strcmp(what, "caught") == 0)
        caught(argv[0]);
    else if (strcmp(what, "others") == 0 && argc > 3)
        others(argv + 2);
    else if (strcmp(what, "lose") == 0)
        lose(argv[0]);
    else if (strcmp(what, "three") == 0)
        three(argv[0]);
    else if (strcmp(what, "alone") == 0)
        alone(argv[0]);
    else if (strcmp(what, "race") == 0 && argc > 2)
        race(argv[0], atoi(argv[2]));
    else if (strcmp(what, "clocks") == 0)
        clocks(argv[0]);
    else if (strcmp(what, "size") == 0)
        size();
    else if (strcmp(what, "serve") == 0)
        serve(argv[0]);
    else if (strcmp(what, "ask") == 0 && argc > 2)
        ask(argv[0], atoi(argv[2]));
    else if (strcmp(what, "hostfile") == 0 && argc > 2)
        by_hostfile(atoi(argv[2]));
    else if (strcmp(what, "halt") == 0)
        pvm_halt();
    pvm_exit();
    printf("%s: %d failures\n", what, failures);
    return failures;
}
