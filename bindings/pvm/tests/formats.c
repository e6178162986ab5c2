/*
 * Two tasks whose data formats may differ: scripts/arm.sh runs one emulated, of 4 or 8 bytes for a
 * long, and one native. The first spawns its first argument, the other, which is compiled from this
 * file, too. Each sends what the other checks; what is wrong is printed.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind stdio.h, for pvm_catchout. */
#include <pvm3.h>

/* More than what is converted at once: 4 KiB. */
#define MANY 3001

enum {
    VALUES = 1,
    FORMATTED,
    RAW,
    IN_PLACE,
    DIRECT,
    VERDICT
};

static int other, other_long_bytes, failures;

static void check_that(int is_right, const char *what)
{
    if (!is_right) {
        printf("long of %d bytes: wrong: %s\n", (int)sizeof(long), what);
        failures++;
    }
}

#define CHECK(condition) check_that((condition) != 0, #condition)

/* Counts of items and steps between them. */
static const int shapes[][2] = {{1, 1}, {5, 1}, {4, 3}, {MANY, 1}};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* Packs items of each shape, and checks them, and that nothing was written in between. */
#define ARRAYS(name, type, parts, value, pack, unpack)                                             \
    static void pack_##name(void)                                                                  \
    {                                                                                              \
        static type items[MANY * (parts)];                                                         \
        for (int shape = 0; shape < SHAPES; shape++) {                                             \
            int count = shapes[shape][0], stride = shapes[shape][1];                               \
            memset(items, 0x55, sizeof items);                                                     \
            for (int index = 0; index < count; index++)                                            \
                for (int part = 0; part < (parts); part++) {                                       \
                    int number = index * (parts) + part;                                           \
                    items[index * stride * (parts) + part] = (type)(value);                        \
                }                                                                                  \
            check_that(pack(items, count, stride) == 0, #pack);                                    \
        }                                                                                          \
    }                                                                                              \
    static void check_##name(void)                                                                 \
    {                                                                                              \
        static type items[MANY * (parts)], untouched;                                              \
        memset(&untouched, 0x55, sizeof untouched);                                                \
        for (int shape = 0; shape < SHAPES; shape++) {                                             \
            int count = shapes[shape][0], stride = shapes[shape][1], wrong = 0;                    \
            memset(items, 0x55, sizeof items);                                                     \
            check_that(unpack(items, count, stride) == 0, #unpack);                                \
            for (int index = 0; index < (count - 1) * stride + 1; index++)                         \
                for (int part = 0; part < (parts); part++) {                                       \
                    int number = index / stride * (parts) + part;                                  \
                    type wanted = index % stride ? untouched : (type)(value);                      \
                    wrong += memcmp(&items[index * (parts) + part], &wanted, sizeof wanted) != 0;  \
                }                                                                                  \
            check_that(wrong == 0, "values of " #unpack);                                          \
        }                                                                                          \
    }

/* The first values are the least and the greatest that XDR has a place for. */
#define EXTREME(least, greatest, else) (number == 0 ? (least) : number == 1 ? (greatest) : (else))

ARRAYS(bytes, char, 1, EXTREME(-128, 127, number * 7 - 3), pvm_pkbyte, pvm_upkbyte)
ARRAYS(shorts, short, 1, EXTREME(SHRT_MIN, SHRT_MAX, -number), pvm_pkshort, pvm_upkshort)
ARRAYS(ushorts, unsigned short, 1, EXTREME(0, USHRT_MAX, 65535 - number), pvm_pkushort,
       pvm_upkushort)
ARRAYS(ints, int, 1, EXTREME(INT_MIN, INT_MAX, number * -70001), pvm_pkint, pvm_upkint)
ARRAYS(uints, unsigned, 1, EXTREME(0U, UINT_MAX, UINT_MAX - (unsigned)number), pvm_pkuint,
       pvm_upkuint)
ARRAYS(longs, long, 1, EXTREME(INT_MIN, INT_MAX, number * -70001L), pvm_pklong, pvm_upklong)
ARRAYS(ulongs, unsigned long, 1, EXTREME(0UL, UINT_MAX, UINT_MAX - (unsigned long)number),
       pvm_pkulong, pvm_upkulong)
ARRAYS(floats, float, 1, EXTREME(-1e-38f, 3e38f, (float)number / -8), pvm_pkfloat, pvm_upkfloat)
ARRAYS(doubles, double, 1, EXTREME(-1e-300, 1e300, number / -3.0), pvm_pkdouble, pvm_upkdouble)
ARRAYS(complexes, float, 2, (float)number / 16 - 7, pvm_pkcplx, pvm_upkcplx)
ARRAYS(dcomplexes, double, 2, number * 1e9 - 7, pvm_pkdcplx, pvm_upkdcplx)

static void send_values(void)
{
    int long_bytes = sizeof(long);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&long_bytes, 1, 1);
    pack_bytes();
    pack_shorts();
    pack_ushorts();
    /* Text of lengths that XDR fills up, and not. */
    CHECK(pvm_pkstr("seven b") == 0 && pvm_pkstr("") == 0 && pvm_pkstr("nine byte") == 0);
    pack_ints();
    pack_uints();
    pack_longs();
    pack_ulongs();
    pack_floats();
    pack_doubles();
    pack_complexes();
    pack_dcomplexes();
    if (sizeof(long) > 4) {
        long wide = LONG_MAX, least = LONG_MIN;
        unsigned long unsigned_wide = ULONG_MAX;
        CHECK(pvm_pklong(&wide, 1, 1) == PvmOverflow);
        CHECK(pvm_pklong(&least, 1, 1) == PvmOverflow);
        CHECK(pvm_pkulong(&unsigned_wide, 1, 1) == PvmOverflow);
    }
    /* Nothing of what was refused is in between. */
    CHECK(pvm_pkstr("end") == 0);
    CHECK(pvm_send(other, VALUES) == 0);
}

static void check_values(void)
{
    char first[16] = "?", second[16] = "?", third[16] = "?";
    CHECK(pvm_recv(other, VALUES) > 0);
    CHECK(pvm_upkint(&other_long_bytes, 1, 1) == 0);
    check_bytes();
    check_shorts();
    check_ushorts();
    CHECK(pvm_upkstr(first) == 0 && pvm_upkstr(second) == 0 && pvm_upkstr(third) == 0);
    CHECK(!strcmp(first, "seven b") && !strcmp(second, "") && !strcmp(third, "nine byte"));
    check_ints();
    check_uints();
    check_longs();
    check_ulongs();
    check_floats();
    check_doubles();
    check_complexes();
    check_dcomplexes();
    CHECK(pvm_upkstr(first) == 0 && !strcmp(first, "end"));
    CHECK(pvm_upkbyte(first, 1, 1) == PvmNoData);
}

/* Arguments lie otherwise on each machine: doubles of armhf in registers of their own. */
static void send_formatted(void)
{
    int ints[3] = {1, -2, 3};
    double pair[2] = {0.5, -0.25};
    CHECK(pvm_packf("%+ %c%hd%d%ld%uld%f%lf%s%*d%2.2d%lx", PvmDataDefault, 'c', -3, -70001, -80001L,
                    4000000000UL, 1.5, -1e100, "text", 3, ints, ints, pair) == 0);
    CHECK(pvm_send(other, FORMATTED) == 0);
}

static void check_formatted(void)
{
    char letter = 0, text[8] = "?";
    short narrow = 0;
    int number = 0, ints[3] = {0}, apart[3] = {0, 7, 0};
    long wide = 0;
    unsigned long unsigned_wide = 0;
    float single = 0;
    double twice = 0, pair[2] = {0};
    CHECK(pvm_recv(other, FORMATTED) > 0);
    CHECK(pvm_unpackf("%c%hd%d%ld%uld%f%lf%s%*d%2.2d%lx", &letter, &narrow, &number, &wide,
                      &unsigned_wide, &single, &twice, text, 3, ints, apart, pair) == 0);
    CHECK(letter == 'c' && narrow == -3 && number == -70001 && wide == -80001L);
    CHECK(unsigned_wide == 4000000000UL && single == 1.5F && twice == -1e100 &&
          !strcmp(text, "text"));
    CHECK(ints[0] == 1 && ints[1] == -2 && ints[2] == 3);
    CHECK(apart[0] == 1 && apart[1] == 7 && apart[2] == 3);
    CHECK(pair[0] == 0.5 && pair[1] == -0.25);
}

static void send_unconverted(void)
{
    int value = 42;
    pvm_initsend(PvmDataRaw);
    CHECK(pvm_pkint(&value, 1, 1) == 0 && pvm_pkstr("raw") == 0 && pvm_send(other, RAW) == 0);
    pvm_initsend(PvmDataInPlace);
    CHECK(pvm_pkint(&value, 1, 1) == 0 && pvm_send(other, IN_PLACE) == 0);
    CHECK(pvm_psend(other, DIRECT, &value, 1, PVM_INT) == 0);
}

static void check_unconverted(void)
{
    int differ = other_long_bytes != (int)sizeof(long);
    int wanted = differ ? PvmBadMsg : 0, wanted_value = differ ? 7 : 42;
    int value = 7;
    char text[8] = "none";
    CHECK(pvm_recv(other, RAW) > 0);
    CHECK(pvm_upkint(&value, 1, 1) == wanted && value == wanted_value);
    CHECK(pvm_upkstr(text) == wanted && !strcmp(text, differ ? "none" : "raw"));
    value = 7;
    CHECK(pvm_recv(other, IN_PLACE) > 0);
    CHECK(pvm_upkint(&value, 1, 1) == wanted && value == wanted_value);
    value = 7;
    /* Bytes as they are, whatever they mean: the manual promises no conversion. */
    CHECK(pvm_precv(other, DIRECT, &value, 1, PVM_INT, NULL, NULL, NULL) == 0 && value == 42);
}

int main(int count, char **arguments)
{
    int is_first, others_failures = -1;
    /* Errors are wanted, and not to be told. */
    pvm_setopt(PvmAutoErr, 0);
    other = pvm_parent();
    is_first = other < 0;
    if (is_first &&
        (count < 2 || pvm_spawn(arguments[1], NULL, PvmTaskDefault, "", 1, &other) != 1)) {
        puts("the other cannot be spawned");
        return 1;
    }
    send_values();
    check_values();
    send_formatted();
    check_formatted();
    send_unconverted();
    check_unconverted();
    fflush(stdout);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&failures, 1, 1);
    pvm_send(other, VERDICT);
    pvm_recv(other, VERDICT);
    pvm_upkint(&others_failures, 1, 1);
    if (is_first)
        printf("long of %d and %d bytes: %d and %d wrong\n", (int)sizeof(long), other_long_bytes,
               failures, others_failures);
    fflush(stdout);
    pvm_exit();
    return failures != 0 || others_failures != 0;
}
