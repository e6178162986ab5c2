/*
 * What functions of PVM return, and what becomes of what they are given: a line for each, the same
 * on PVM 3.4.6 and on Hythe, which behaviour.rs compares. Left out is what the guide says differs.
 */
#include <pvm3.h>
#include <stdio.h>
#include <string.h>

#define SHOW(call) printf("%s: %d\n", #call, call)

static int own;

static int handled;
static int handler(int buffer)
{
    int value = 0;
    pvm_upkint(&value, 1, 1);
    handled += value;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    pvm_send(own, 901);
    pvm_freebuf(pvm_setsbuf(0));
    return buffer > 0;
}

static int length(void)
{
    int bytes = -1, tag, source;
    pvm_bufinfo(pvm_getsbuf(), &bytes, &tag, &source);
    return bytes;
}

static void lengths(int encoding)
{
    char c[16] = "abcdefg";
    short h[8] = {1, -2, 3};
    unsigned short uh[8] = {1};
    int n[8] = {1, 2, 3};
    unsigned int un[8] = {1};
    long l[8] = {1, -2, 3};
    unsigned long ul[8] = {1};
    float f[8] = {0.5f};
    double d[8] = {0.25};
#define LENGTH(call)                                                                               \
    do {                                                                                           \
        pvm_initsend(encoding);                                                                    \
        SHOW(call);                                                                                \
        printf("%d bytes\n", length());                                                            \
    } while (0)
    LENGTH(pvm_pkbyte(c, 5, 1));
    LENGTH(pvm_pkbyte(c, 3, 2));
    LENGTH(pvm_pkshort(h, 3, 1));
    LENGTH(pvm_pkushort(uh, 3, 1));
    LENGTH(pvm_pkint(n, 3, 1));
    LENGTH(pvm_pkint(n, 3, 2));
    LENGTH(pvm_pkint(n, 0, 1));
    LENGTH(pvm_pkint(n, 2, 0));
    LENGTH(pvm_pkint(n, -1, 1));
    LENGTH(pvm_pkuint(un, 2, 1));
    LENGTH(pvm_pklong(l, 3, 1));
    LENGTH(pvm_pkulong(ul, 3, 1));
    LENGTH(pvm_pkfloat(f, 3, 1));
    LENGTH(pvm_pkdouble(d, 3, 1));
    LENGTH(pvm_pkcplx(f, 2, 1));
    LENGTH(pvm_pkdcplx(d, 2, 1));
    LENGTH(pvm_pkstr("hello"));
    LENGTH(pvm_pkstr(""));
    LENGTH(pvm_pkstr("abc"));
}

static void round_trip(int encoding)
{
    short h[4] = {-1, 2, -3, 4}, h2[4] = {0};
    long l = 70000, l2 = 0;
    unsigned short uh = 65535, uh2 = 0;
    float f[4] = {1.5f, -2.5f, 3.5f, 4.5f}, f2[4] = {0};
    double d = 6.25, d2 = 0;
    char text[32] = "";
    int n[6] = {1, 2, 3, 4, 5, 6}, n2[6] = {0};
    struct pvmminfo info;
    pvm_initsend(encoding);
    SHOW(pvm_packf("%4hd %ld %uhd %2x %lf %s %3.2d", h, l, uh, f, d, "text", n));
    SHOW(pvm_send(own, 7));
    SHOW(pvm_getminfo(pvm_recv(own, 7), &info));
    printf("len %d ctx %d tag %d wid %d enc %x crc %d self %d %d\n", info.len, info.ctx, info.tag,
           info.wid, (unsigned)info.enc, info.crc, info.src == own, info.dst == own);
    SHOW(pvm_unpackf("%4hd %ld %uhd %2x %lf %s %3.2d", h2, &l2, &uh2, f2, &d2, text, n2));
    printf("%d %d %d %d %ld %u %g %g %g %g %g %s %d %d %d %d\n", h2[0], h2[1], h2[2], h2[3], l2,
           uh2, f2[0], f2[1], f2[2], f2[3], d2, text, n2[0], n2[1], n2[2], n2[4]);
    SHOW(pvm_upkint(n2, 1, 1));
}

static void nested(void)
{
    int inner = pvm_mkbuf(PvmDataDefault), before, value = 5, found = 0;
    char text[16] = "";
    before = pvm_setsbuf(inner);
    pvm_pkstr("inner");
    pvm_setsbuf(before);
    pvm_initsend(PvmDataRaw);
    SHOW(pvm_pkmesg(inner));
    printf("%d bytes\n", length());
    SHOW(pvm_pkmesgbody(inner));
    SHOW(pvm_pkint(&value, 1, 1));
    pvm_send(own, 8);
    pvm_recv(own, 8);
    inner = pvm_upkmesg();
    SHOW(pvm_upkint(&found, 1, 1));
    printf("%d\n", found);
    before = pvm_setrbuf(inner);
    SHOW(pvm_upkstr(text));
    printf("%s\n", text);
    pvm_setrbuf(before);
    SHOW(pvm_freebuf(inner));
}

static void errors(void)
{
    int n[4] = {0};
    SHOW(pvm_send(0, 1));
    SHOW(pvm_send(-1, 1));
    SHOW(pvm_send(own, -5));
    SHOW(pvm_send(0x40fff, 1));
    SHOW(pvm_nrecv(-2, 1));
    SHOW(pvm_nrecv(-1, 999));
    SHOW(pvm_probe(-1, 999));
    SHOW(pvm_freebuf(0));
    SHOW(pvm_freebuf(999));
    SHOW(pvm_freebuf(-1));
    SHOW(pvm_setsbuf(999));
    SHOW(pvm_setrbuf(-1));
    SHOW(pvm_initsend(7));
    SHOW(pvm_mkbuf(-1));
    SHOW(pvm_getopt(99));
    SHOW(pvm_setopt(PvmRoute, 7));
    SHOW(pvm_setopt(PvmRoute, PvmRouteDirect));
    SHOW(pvm_setopt(PvmRoute, PvmAllowDirect));
    pvm_setsbuf(0);
    SHOW(pvm_pkint(n, 1, 1));
    SHOW(pvm_send(own, 1));
    pvm_setrbuf(0);
    SHOW(pvm_upkint(n, 1, 1));
    SHOW(pvm_bufinfo(0, n, n, n));
    SHOW(pvm_pstat(own));
    SHOW(pvm_pstat(0x40fff));
    SHOW(pvm_pstat(0));
    SHOW(pvm_mstat("no-such-host"));
    SHOW(pvm_archcode("CRAY"));
    SHOW(pvm_archcode(0));
    SHOW(pvm_kill(0x40fff));
    SHOW(pvm_kill(0));
    SHOW(pvm_spawn("no-such-program", 0, 0, "", 2, n));
    printf("%d %d\n", n[0], n[1]);
    SHOW(pvm_spawn("true", 0, PvmTaskHost, "no-such-host", 1, n));
    printf("%d\n", n[0]);
    SHOW(pvm_spawn("true", 0, PvmTaskArch, "CRAY", 1, n));
    printf("%d\n", n[0]);
    SHOW(pvm_spawn("true", 0, 0, "", 0, n));
    SHOW(pvm_notify(99, 1, 1, &own));
    SHOW(pvm_notify(PvmTaskExit, -3, 1, &own));
    SHOW(pvm_parent());
    SHOW(pvm_freecontext(12345));
}

static void notices(void)
{
    struct pvmminfo info;
    int gone = 0x40fff, found = 0;
    SHOW(pvm_notify(PvmTaskExit, 77, 1, &gone));
    SHOW(pvm_getminfo(pvm_recv(-1, 77), &info));
    SHOW(pvm_upkint(&found, 1, 1));
    printf("%d %x %x len %d ctx %d\n", found == gone, (unsigned)info.src, (unsigned)info.enc,
           info.len, info.ctx);
}

static void mailboxes(void)
{
    struct pvmmboxinfo *classes;
    int count = 0;
    pvm_initsend(PvmDataDefault);
    pvm_pkstr("x");
    SHOW(pvm_recvinfo("a", 0, PvmMboxDefault));
    SHOW(pvm_putinfo("a", pvm_getsbuf(), PvmMboxDefault));
    SHOW(pvm_putinfo("a", pvm_getsbuf(), PvmMboxDefault));
    SHOW(pvm_putinfo("a", pvm_getsbuf(), PvmMboxMultiInstance));
    SHOW(pvm_putinfo("b", pvm_getsbuf(), PvmMboxMultiInstance));
    SHOW(pvm_putinfo("b", pvm_getsbuf(), PvmMboxMultiInstance));
    SHOW(pvm_putinfo("b", pvm_getsbuf(), PvmMboxMultiInstance | PvmMboxDirectIndex(1u)));
    SHOW(pvm_putinfo("b", pvm_getsbuf(), PvmMboxMultiInstance | PvmMboxDirectIndex(9u)));
    SHOW(pvm_putinfo("c", pvm_getsbuf(), PvmMboxOverWritable));
    SHOW(pvm_putinfo("c", pvm_getsbuf(), PvmMboxOverWritable));
    SHOW(pvm_recvinfo("b", 5, PvmMboxDefault));
    SHOW(pvm_recvinfo("b", 5, PvmMboxFirstAvail) > 0);
    SHOW(pvm_delinfo("none", 0, 0));
    SHOW(pvm_delinfo("b", 1, 0));
    SHOW(pvm_delinfo("a", 0, 0));
    SHOW(pvm_insert("d", -1, 77));
    SHOW(pvm_lookup("d", 0, &count));
    printf("%d\n", count);
    SHOW(pvm_delete("d", 0));
    SHOW(pvm_lookup("d", 0, &count));
    SHOW(pvm_getmboxinfo("a", &count, &classes));
    printf("%d %s %d %d %d\n", count, classes[0].mi_name, classes[0].mi_nentries,
           classes[0].mi_indices[0], classes[0].mi_flags[0]);
}

/* Which names a pattern finds. */
static void patterns(void)
{
    static char *names[] = {"cab", "aXbXc", "aabab", "a.c", "[a]"};
    static char *wanted[] = {"*", "", "ab", "a*b", "b*a", "*c", "a.c", "^a", "a$", "[a]", "a*bab"};
    struct pvmmboxinfo *classes;
    int count, one, found;
    for (one = 0; one < (int)(sizeof names / sizeof *names); one++) {
        pvm_initsend(PvmDataDefault);
        SHOW(pvm_putinfo(names[one], pvm_getsbuf(), PvmMboxDefault));
    }
    for (one = 0; one < (int)(sizeof wanted / sizeof *wanted); one++) {
        SHOW(pvm_getmboxinfo(wanted[one], &count, &classes));
        for (found = 0; found < count; found++)
            if (strcmp(wanted[one], "*") != 0 && wanted[one][0])
                printf("%s finds %s\n", wanted[one], classes[found].mi_name);
    }
}

/* What a member of groups does for the first task, which sends it a number. */
enum order {
    END,
    JOIN,
    FREEZE_FOUR,
    MEET,
    SIZE,
    ADD,
    TAKE,
    JOIN_PAIR,
    FREEZE_PAIR
};

static int obey(int order)
{
    int value = 1;
    switch (order) {
    case JOIN:
        return pvm_joingroup("four");
    case FREEZE_FOUR:
        return pvm_freezegroup("four", 4);
    case MEET:
        return pvm_barrier("four", -1);
    case SIZE:
        return pvm_gsize("four");
    case ADD:
        return pvm_reduce(PvmSum, &value, 1, PVM_INT, 31, "four", 0) + 10 * value;
    case TAKE:
        return pvm_recv(-1, 33) > 0;
    case JOIN_PAIR:
        return pvm_joingroup("pair");
    default:
        return pvm_freezegroup("pair", 1);
    }
}

static int member(void)
{
    int order, first = pvm_parent(), result;
    pvm_setopt(PvmAutoErr, 0);
    for (;;) {
        pvm_recv(first, 30);
        pvm_upkint(&order, 1, 1);
        if (order == END)
            break;
        result = obey(order);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&result, 1, 1);
        pvm_send(first, 32);
    }
    return pvm_exit();
}

static int members[4];

static void order(int number, int what)
{
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&what, 1, 1);
    pvm_send(members[number], 30);
}

static int result(int number)
{
    int value = -999;
    pvm_recv(members[number], 32);
    pvm_upkint(&value, 1, 1);
    return value;
}

static int answer(int number, int what)
{
    order(number, what);
    return result(number);
}

static void all(const char *name, int what)
{
    for (int one = 0; one < 4; one++)
        order(one, what);
    printf("%s:", name);
    for (int one = 0; one < 4; one++)
        printf(" %d", result(one));
    printf("\n");
}

static void frozen(char *program)
{
    char *arguments[] = {"member", NULL};
    int n[4] = {0};
    SHOW(pvm_spawn(program, arguments, PvmTaskDefault, "", 4, members));
    for (int one = 0; one < 4; one++)
        SHOW(answer(one, JOIN));
    SHOW(pvm_getinst("four", members[2]));
    SHOW(pvm_reduce(PvmSum, n, 1, PVM_INT, 31, "four", 0));
    SHOW(pvm_gather(n, n, 1, PVM_INT, 31, "four", 0));
    SHOW(pvm_scatter(n, n, 1, PVM_INT, 31, "four", 0));
    all("freeze", FREEZE_FOUR);
    SHOW(pvm_joingroup("four"));
    SHOW(answer(1, JOIN));
    SHOW(pvm_freezegroup("four", 4));
    SHOW(answer(1, FREEZE_FOUR));
    SHOW(pvm_gsize("four"));
    SHOW(pvm_lvgroup("four"));
    all("size", SIZE);
    all("meet", MEET);
    all("add", ADD);
    pvm_initsend(PvmDataDefault);
    SHOW(pvm_bcast("four", 33));
    all("take", TAKE);
    SHOW(answer(0, JOIN_PAIR));
    SHOW(answer(1, JOIN_PAIR));
    SHOW(answer(0, FREEZE_PAIR));
    for (int one = 0; one < 4; one++)
        order(one, END);
}

/* A group of this task alone. */
static void alone(void)
{
    int n[4] = {5};
    SHOW(pvm_joingroup("alone"));
    SHOW(pvm_bcast("alone", 1));
    SHOW(pvm_getinst("alone", 0));
    SHOW(pvm_getinst("none", 0));
    SHOW(pvm_reduce(PvmSum, n, 1, PVM_INT, 1, "alone", 0));
    SHOW(pvm_reduce(PvmSum, n, 0, PVM_INT, 1, "alone", 0));
    SHOW(pvm_gather(n, n, 0, PVM_INT, 1, "alone", 0));
    SHOW(pvm_scatter(n, n, 0, PVM_INT, 1, "alone", 0));
    SHOW(pvm_gather(n, "text", 4, PVM_STR, 1, "alone", 0));
    SHOW(pvm_reduce(PvmSum, n, 1, PVM_INT, 1, "alone", 1));
    SHOW(pvm_freezegroup("alone", -1));
    SHOW(pvm_joingroup("alone"));
    SHOW(pvm_bcast("alone", 1));
    SHOW(pvm_lvgroup("alone"));
    SHOW(pvm_gsize("alone"));
}

/* Of notices, for whom and how many there may be. */
static void watches(void)
{
    int host = pvm_tidtohost(own), other = 0x0c0005, found = 0;
    SHOW(pvm_notify(PvmTaskExit, 62, 0, &own));
    SHOW(pvm_notify(PvmTaskExit | PvmNotifyCancel, 62, 0, &own));
    SHOW(pvm_notify(PvmHostDelete, 62, 0, &host));
    SHOW(pvm_notify(PvmHostDelete, 62, 1, &own));
    SHOW(pvm_notify(PvmRouteDelete, 62, 0, &own));
    SHOW(pvm_notify(PvmRouteDelete, 62, 1, &own));
    for (int count = -2; count < 3; count++)
        SHOW(pvm_notify(PvmHostAdd, 62, count, NULL));
    SHOW(pvm_notify(PvmHostAdd, 62, 0, NULL));
    SHOW(pvm_notify(PvmTaskExit, 62, 1, &host));
    SHOW(pvm_notify(PvmHostDelete, 63, 1, &other));
    SHOW(pvm_recv(-1, 63) > 0);
    SHOW(pvm_upkint(&found, 1, 1));
    SHOW(found);
}

typedef int matcher(int, int, int);
static matcher *usual;

static int through(int buffer, int task, int tag)
{
    return usual(buffer, task, tag);
}

static void matching(void)
{
    int bytes, tag = 0, source;
    usual = (matcher *)pvm_recvf(through);
    SHOW(usual != NULL);
    for (tag = 970; tag < 972; tag++) {
        pvm_initsend(PvmDataDefault);
        pvm_send(own, tag);
    }
    pvm_bufinfo(pvm_recv(own, 971), &bytes, &tag, &source);
    SHOW(tag);
    SHOW((matcher *)pvm_recvf(usual) == through);
    pvm_bufinfo(pvm_recv(own, 970), &bytes, &tag, &source);
    SHOW(tag);
    SHOW((matcher *)pvm_recvf(NULL) == usual);
}

/* Values of calls that have no error where one might expect it. */
static void values(void)
{
    struct timeval over = {-1, 0}, little = {0, -1};
    struct pvmhostinfo *hosts;
    int n[4] = {0}, host;
    SHOW(pvm_trecv(-1, 999, &over));
    SHOW(pvm_trecv(-1, 999, &little));
    SHOW(pvm_setopt(PvmPollType, PvmPollSleep));
    SHOW(pvm_setopt(PvmPollTime, 1));
    SHOW(pvm_psend(own, 1, "text", 4, PVM_STR));
    SHOW(pvm_precv(own, 1, n, 4, PVM_STR, NULL, NULL, NULL));
    SHOW(pvm_spawn("", NULL, 0, "", 2, n));
    printf("%d %d\n", n[0], n[1]);
    SHOW(pvm_tasks(-1, n, NULL));
    SHOW(pvm_mstat(""));
    SHOW(pvm_mstat("."));
    SHOW(pvm_sendsig(own, 0));
    SHOW(pvm_sendsig(own, 999));
    SHOW(pvm_sendsig(own, -1));
    pvm_config(NULL, NULL, &hosts);
    host = hosts->hi_tid;
    pvm_config(NULL, NULL, NULL);
    SHOW(hosts->hi_tid == host);
}

/* Mailboxes as programs for PVM 3.3 use them, and numbers that are taken. */
static void entries(void)
{
    struct pvmmboxinfo *classes;
    int value = 0, count;
    pvm_initsend(PvmDataDefault);
    for (int one = 0; one < 3; one++)
        SHOW(pvm_putinfo("e", pvm_getsbuf(), PvmMboxMultiInstance | PvmMboxDirectIndex(3u)));
    SHOW(pvm_insert("f", -1, 7));
    SHOW(pvm_insert("f", 5, 8));
    SHOW(pvm_insert("f", 5, 9));
    SHOW(pvm_insert("f", 0, 9));
    SHOW(pvm_insert("f", -2, 9));
    SHOW(pvm_delete("f", 0));
    SHOW(pvm_lookup("f", -1, &value));
    SHOW(value);
    SHOW(pvm_lookup("f", 5, &value));
    SHOW(pvm_lookup("f", 3, &value));
    SHOW(pvm_lookup("none", -1, &value));
    pvm_getmboxinfo("f", &count, &classes);
    printf("%d %d\n", classes[0].mi_nentries, classes[0].mi_flags[0]);
}

/* Backwards, one item again and again, and none. */
static void strides(int encoding)
{
    for (int count = 0; count < 4; count++)
        for (int stride = -2; stride < 3; stride++) {
            int from[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, to[9] = {0};
            char text[9] = "abcdefgh", back[9] = "........";
            pvm_initsend(encoding);
            printf("encoding %d: %d items, stride %d\n", encoding, count, stride);
            SHOW(pvm_pkint(from + 4, count, stride));
            SHOW(pvm_pkbyte(text + 4, count, stride));
            printf("%d bytes\n", length());
            pvm_send(own, 970);
            pvm_recv(own, 970);
            SHOW(pvm_upkint(to + 4, count, stride));
            SHOW(pvm_upkbyte(back + 4, count, stride));
            for (int index = 0; index < 9; index++)
                printf("%d ", to[index]);
            printf("%s\n", back);
            SHOW(pvm_upkint(to, 1, 1));
        }
}

static void groups(void)
{
    SHOW(pvm_gsize("none"));
    SHOW(pvm_getinst("none", own));
    SHOW(pvm_gettid("none", 0));
    SHOW(pvm_joingroup("g"));
    SHOW(pvm_joingroup("g"));
    SHOW(pvm_gsize("g"));
    SHOW(pvm_getinst("g", own));
    SHOW(pvm_gettid("g", 0) == own);
    SHOW(pvm_gettid("g", 7));
    SHOW(pvm_getinst("g", 0x40fff));
    SHOW(pvm_barrier("g", 1));
    SHOW(pvm_barrier("g", -1));
    SHOW(pvm_bcast("none", 1));
    SHOW(pvm_joingroup(""));
    SHOW(pvm_joingroup(0));
    SHOW(pvm_lvgroup("g"));
}

int main(int argc, char **argv)
{
    struct timeval soon = {0, 20000};
    int value = 40, n[3] = {7, 8, 9}, n2[3] = {0}, source, tag, bytes;
    own = pvm_mytid();
    if (argc > 1)
        return member();
    setvbuf(stdout, 0, _IONBF, 0);
    printf("task %d version %s siblings %d\n", own > 0, pvm_version(), pvm_siblings(&(int *){0}));
    for (int encoding = PvmDataDefault; encoding <= PvmDataInPlace; encoding++)
        lengths(encoding);
    for (int encoding = PvmDataDefault; encoding <= PvmDataInPlace; encoding++)
        strides(encoding);
    round_trip(PvmDataDefault);
    round_trip(PvmDataRaw);
    nested();
    errors();
    notices();
    mailboxes();
    patterns();
    groups();
    alone();
    frozen(argv[0]);
    watches();
    matching();
    values();
    entries();

    SHOW(pvm_addmhf(own, 900, pvm_getcontext(), handler) >= 0);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    SHOW(pvm_send(own, 900));
    SHOW(pvm_recv(own, 901) > 0);
    SHOW(handled);
    SHOW(pvm_delmhf(999));
    SHOW(pvm_delmhf(-1));

    SHOW(pvm_psend(own, 960, n, 3, PVM_INT));
    SHOW(pvm_precv(own, 960, n2, 2, PVM_INT, &source, &tag, &bytes));
    printf("%d %d %d self %d tag %d bytes %d\n", n2[0], n2[1], n2[2], source == own, tag, bytes);
    SHOW(pvm_trecv(own, 999, &soon));
    pvm_initsend(PvmDataInPlace);
    SHOW(pvm_pkint(n, 3, 1));
    n[0] = 70;
    SHOW(pvm_send(own, 961));
    SHOW(pvm_recv(own, 961) > 0);
    SHOW(pvm_upkint(n2, 3, 1));
    printf("in place %d %d %d\n", n2[0], n2[1], n2[2]);
    SHOW(pvm_exit());
    return 0;
}
