/*
 * The library against the golden bytes: it builds the core section of link_core.txt, reads the
 * Linux section of link_linux.txt, and computes the offsets of link_layout.txt.
 */
#include <stdlib.h>
#include <string.h>

#include "descriptor.h"
#include "geometry.h"
#include "hythe_rt.h"
#include "layout.h"
#include "link.h"
#include "queue.h"
#include "shared.h"
#include "test.h"
#include "vectors.h"

enum {
    SECTION_MAX = 4096,
    /* Of both section files. */
    SECTION_BYTES = 2048,
    FLOWS = 6,
    CAPACITY = 4
};

/* Of both section files, too. */
static const struct hythe_sizes SIZES = {64, 3, 2, CAPACITY};

static struct vectors vectors;
static struct hythe_port no_port;

static void descriptors_make_these_bytes(void)
{
    char group[VECTOR_TEXT_MAX] = "";
    unsigned cases = 0;
    size_t i;

    CHECK(vectors_read(&vectors, "descriptor.txt"));
    for (i = 0; i < vectors.count; i++) {
        uint8_t bytes[16];
        uint32_t words[4];
        uint32_t length;
        const char *kind;
        if (strcmp(vectors.line[i].group, group) == 0) {
            continue;
        }
        strcpy(group, vectors.line[i].group);
        cases++;
        CHECK_EQUAL(vectors_bytes(vectors_text(&vectors, group, "hex"), bytes, 16), 16);
        memcpy(words, bytes, 16);
        length = vectors_number(&vectors, group, "length");
        kind = vectors_text(&vectors, group, "kind");
        CHECK_EQUAL(words[HYTHE_WORD_PLACE], hythe_place(vectors_number(&vectors, group, "region"),
                                                         vectors_number(&vectors, group, "slot")));
        CHECK_EQUAL(hythe_place_region(words[HYTHE_WORD_PLACE]),
                    vectors_number(&vectors, group, "region"));
        CHECK_EQUAL(hythe_place_slot(words[HYTHE_WORD_PLACE]),
                    vectors_number(&vectors, group, "slot"));
        CHECK_EQUAL(words[HYTHE_WORD_GENERATION], vectors_number(&vectors, group, "generation"));
        CHECK_EQUAL(words[HYTHE_WORD_OFFSET], vectors_number(&vectors, group, "offset"));
        CHECK_EQUAL(words[HYTHE_WORD_LENGTH], length);
        CHECK_EQUAL(strcmp(kind, "credit") == 0, length == HYTHE_LENGTH_CREDIT);
        CHECK_EQUAL(strcmp(kind, "unused") == 0, length == HYTHE_LENGTH_UNUSED);
    }
    CHECK(cases >= 5);
}

static void check_layout(const char *group)
{
    struct hythe_sizes sizes = {
        vectors_number(&vectors, group, "line_bytes"),
        vectors_number(&vectors, group, "endpoints"),
        vectors_number(&vectors, group, "ports"),
        vectors_number(&vectors, group, "capacity"),
    };
    struct hythe_layout layout;

    CHECK(hythe_layout_possible(&sizes));
    hythe_layout_compute(&layout, &sizes);
    CHECK_EQUAL(layout.linux_bell, vectors_number(&vectors, group, "linux_bell"));
    CHECK_EQUAL(layout.linux_classes, vectors_number(&vectors, group, "linux_classes"));
    CHECK_EQUAL(layout.linux_flow, vectors_number(&vectors, group, "linux_flow"));
    CHECK_EQUAL(layout.linux_entries, vectors_number(&vectors, group, "linux_entries"));
    CHECK_EQUAL(layout.linux_bytes, vectors_number(&vectors, group, "linux_bytes"));
    CHECK_EQUAL(layout.core_bell, vectors_number(&vectors, group, "core_bell"));
    CHECK_EQUAL(layout.core_records, vectors_number(&vectors, group, "core_records"));
    CHECK_EQUAL(layout.core_flow, vectors_number(&vectors, group, "core_flow"));
    CHECK_EQUAL(layout.core_entries, vectors_number(&vectors, group, "core_entries"));
    CHECK_EQUAL(layout.core_bytes, vectors_number(&vectors, group, "core_bytes"));
    CHECK_EQUAL(layout.needed_bytes, vectors_number(&vectors, group, "needed_bytes"));
}

static void layouts_have_these_offsets(void)
{
    char group[VECTOR_TEXT_MAX] = "";
    unsigned cases = 0;
    size_t i;

    CHECK(vectors_read(&vectors, "link_layout.txt"));
    for (i = 0; i < vectors.count; i++) {
        if (strcmp(vectors.line[i].group, group) != 0) {
            strcpy(group, vectors.line[i].group);
            check_layout(group);
            cases++;
        }
    }
    CHECK(cases >= 5);
}

/* The bytes of the group [bytes]; the caller frees them. */
static uint8_t *golden_section(size_t bytes)
{
    uint8_t *section = aligned_alloc(4096, 2 * SECTION_MAX);
    size_t i;

    CHECK(bytes <= SECTION_MAX);
    memset(section, 0, 2 * SECTION_MAX);
    for (i = 0; i < vectors.count; i++) {
        unsigned offset;
        if (strcmp(vectors.line[i].group, "bytes") == 0) {
            CHECK_EQUAL(sscanf(vectors.line[i].key, "at %u", &offset), 1);
            CHECK(offset + 16 <= bytes);
            CHECK_EQUAL(vectors_bytes(vectors.line[i].value, section + offset, 16), 16);
        }
    }
    return section;
}

static void linux_header_reads_as_these_fields(const uint8_t *section)
{
    struct hythe_geometry geometry;
    uint32_t i;

    hythe_geometry_copy(&geometry, &no_port, section, SECTION_MAX);
    CHECK_EQUAL(geometry.version, vectors_number(&vectors, "header", "version"));
    CHECK_EQUAL(geometry.line_bytes, vectors_number(&vectors, "header", "line_bytes"));
    CHECK_EQUAL(geometry.section_bytes, vectors_number(&vectors, "header", "section_bytes"));
    CHECK_EQUAL(geometry.endpoints, vectors_number(&vectors, "header", "endpoints"));
    CHECK_EQUAL(geometry.ports, vectors_number(&vectors, "header", "ports"));
    CHECK_EQUAL(geometry.capacity, vectors_number(&vectors, "header", "capacity"));
    CHECK_EQUAL(geometry.region, vectors_number(&vectors, "header", "region"));
    CHECK_EQUAL(geometry.region_bytes, vectors_number(&vectors, "header", "region_bytes"));
    CHECK_EQUAL(geometry.classes, vectors_number(&vectors, "header", "classes"));
    CHECK_EQUAL(geometry.headroom, vectors_number(&vectors, "header", "headroom"));
    for (i = 0; i < geometry.classes; i++) {
        char group[32];
        snprintf(group, sizeof group, "class.%u", i);
        CHECK_EQUAL(geometry.slot_class[i].slot_bytes,
                    vectors_number(&vectors, group, "slot_bytes"));
        CHECK_EQUAL(geometry.slot_class[i].slot_count,
                    vectors_number(&vectors, group, "slot_count"));
        CHECK_EQUAL(geometry.slot_class[i].first_slot,
                    vectors_number(&vectors, group, "first_slot"));
        CHECK_EQUAL(geometry.slot_class[i].region_offset,
                    vectors_number(&vectors, group, "region_offset"));
    }
    CHECK_EQUAL(hythe_geometry_check(&geometry, 2 * SECTION_BYTES, geometry.region_bytes, 3),
                HYTHE_REASON_NONE);
}

static void check_entry(const volatile uint8_t *entries, uint32_t flow, uint32_t index)
{
    char group[32];
    const char *text;
    uint8_t bytes[HYTHE_ENTRY_BYTES] = {0};

    snprintf(group, sizeof group, "entry.%u.%u", flow, index);
    text = vectors_text(&vectors, group, "hex");
    if (text != NULL) {
        CHECK_EQUAL(vectors_bytes(text, bytes, sizeof bytes), sizeof bytes);
    }
    CHECK(memcmp((const uint8_t *)entries + (flow * CAPACITY + index) * sizeof bytes, bytes,
                 sizeof bytes) == 0);
}

static void a_linux_section_is_read_as_these_fields(void)
{
    uint8_t *section;
    struct hythe_layout layout;
    uint32_t number;
    uint32_t index;

    CHECK(vectors_read(&vectors, "link_linux.txt"));
    section = golden_section(vectors_number(&vectors, "header", "section_bytes"));
    CHECK_EQUAL(hythe_read(&no_port, hythe_const_word(section, HYTHE_LINUX_AT_MAGIC)),
                HYTHE_LINUX_MAGIC);
    CHECK_EQUAL(hythe_read(&no_port, hythe_const_word(section, HYTHE_LINUX_AT_SESSION)),
                vectors_number(&vectors, "header", "session"));
    linux_header_reads_as_these_fields(section);
    hythe_layout_compute(&layout, &SIZES);
    CHECK_EQUAL(*hythe_word(section, layout.linux_bell + HYTHE_BELL_AT_COUNT),
                vectors_number(&vectors, "bell", "bell_count"));
    CHECK_EQUAL(*hythe_word(section, layout.linux_bell + HYTHE_BELL_AT_CHANGES),
                vectors_number(&vectors, "bell", "changes"));
    for (number = 0; number < FLOWS; number++) {
        volatile uint8_t *flow = section + layout.linux_flow + 64 * number;
        char group[32];
        snprintf(group, sizeof group, "flow.%u", number);
        CHECK_EQUAL(*hythe_word(flow, HYTHE_FLOW_AT_SESSION),
                    vectors_number(&vectors, group, "session"));
        CHECK_EQUAL(*hythe_word(flow, HYTHE_FLOW_AT_START),
                    vectors_number(&vectors, group, "start"));
        CHECK_EQUAL(*hythe_word(flow, HYTHE_FLOW_AT_TAIL), vectors_number(&vectors, group, "tail"));
        CHECK_EQUAL(*hythe_word(flow, HYTHE_FLOW_AT_HEAD), vectors_number(&vectors, group, "head"));
        CHECK_EQUAL(*hythe_word(flow, HYTHE_FLOW_AT_WINDOW),
                    vectors_number(&vectors, group, "window"));
        CHECK_EQUAL(*hythe_word(flow, HYTHE_FLOW_AT_WANTED),
                    vectors_number(&vectors, group, "bell_wanted"));
        for (index = 0; index < CAPACITY; index++) {
            check_entry(section + layout.linux_entries, number, index);
        }
    }
    free(section);
}

/* ---- The core section, written by the library itself ---- */

static void nothing(void *context)
{
    (void)context;
}

static void no_wait(void *context, uint32_t timeout_ms)
{
    (void)context;
    (void)timeout_ms;
}

static uint32_t no_time(void *context)
{
    (void)context;
    return 0;
}

/* A Linux section that leads the library to the geometry of the file. */
static void write_linux_section(volatile uint8_t *section)
{
    static const uint32_t HEADER[12] = {
        HYTHE_LINUX_MAGIC, 2, 64, SECTION_BYTES, 3, 4, 2, 4096 * 16, 1, 256, 0, 2};
    uint32_t i;

    for (i = 0; i < 12; i++) {
        *hythe_word(section, 4 * i) = HEADER[i];
    }
    *hythe_word(section, 128) = 4096;
    *hythe_word(section, 132) = 16;
    *hythe_word(section, HYTHE_LINUX_AT_SESSION) = vectors_number(&vectors, "header", "echo");
}

/* The words of a flow's line that the file names, in the order of the line. */
static void write_flow_line(volatile uint8_t *flow, const char *group)
{
    static const char *const WORDS[9] = {"echo",        "start",    "tail",
                                         "head",        "dropped",  "raised_low",
                                         "raised_high", "seen_low", "seen_high"};
    uint32_t i;

    for (i = 0; i < 9; i++) {
        *hythe_word(flow, 4 * i) = vectors_number(&vectors, group, WORDS[i]);
    }
}

/* What a life of this core would have left: counters, and entries in the rings. */
static void write_flows(struct hythe_link *link)
{
    uint32_t number;
    uint32_t index;
    char group[32];

    for (number = 0; number < FLOWS; number++) {
        struct hythe_flow_view view;
        struct hythe_endpoint *endpoint = &link->endpoints[number / 2];
        /* The third endpoint exists in the section only. */
        endpoint->link = link;
        endpoint->index = number / 2;
        if (number / 2 == 2) {
            endpoint->linux_lines = endpoint[-1].linux_lines;
            endpoint->linux_entries = endpoint[-1].linux_entries;
            endpoint->core_lines = endpoint[-1].core_lines + 2 * 64;
            endpoint->core_entries = endpoint[-1].core_entries + 2 * CAPACITY * HYTHE_ENTRY_BYTES;
        }
        hythe_flow_look(&view, endpoint, number % 2);
        for (index = 0; index < CAPACITY; index++) {
            uint32_t words[HYTHE_WORDS];
            const char *text;
            snprintf(group, sizeof group, "entry.%u.%u", number, index);
            text = vectors_text(&vectors, group, "hex");
            if (text != NULL &&
                vectors_bytes(text, (uint8_t *)words, sizeof words) == sizeof words) {
                view.flow->outbox_tail = index;
                struct hythe_outgoing outgoing = {words, words[3], words[5]};
                hythe_outbox_push(&view, &outgoing);
            }
        }
        snprintf(group, sizeof group, "flow.%u", number);
        write_flow_line(view.core_line, group);
    }
}

static void count(struct hythe_endpoint *endpoint, uint32_t *counter, uint32_t offset,
                  uint32_t times)
{
    for (; times != 0; times--) {
        hythe_endpoint_count(endpoint, counter, offset);
    }
}

/* The counters of the endpoints' records. */
static void count_as_in_the_file(struct hythe_link *link)
{
    uint32_t i;

    for (i = 0; i < 2; i++) {
        struct hythe_endpoint *endpoint = &link->endpoints[i];
        struct hythe_counters *counters = &endpoint->counters;
        char group[32];
        snprintf(group, sizeof group, "record.%u", i);
        count(endpoint, &counters->violations, HYTHE_RECORD_AT_VIOLATIONS,
              vectors_number(&vectors, group, "violations"));
        count(endpoint, &counters->full, HYTHE_RECORD_AT_FULL,
              vectors_number(&vectors, group, "full"));
        count(endpoint, &counters->no_slot, HYTHE_RECORD_AT_NO_SLOT,
              vectors_number(&vectors, group, "no_slot"));
        count(endpoint, &counters->dropped, HYTHE_RECORD_AT_DROPPED,
              vectors_number(&vectors, group, "dropped"));
    }
}

static void a_core_section_is_written_as_these_bytes(void)
{
    static struct hythe_endpoint_config endpoints[2];
    static uint8_t region[4096 * 16];
    struct hythe_port port = {NULL, no_wait, nothing, no_time, NULL, NULL, NULL, NULL};
    struct hythe_link_config config;
    struct hythe_link link;
    uint8_t *golden;
    uint8_t *memory = aligned_alloc(4096, 4096);
    uint32_t i;

    CHECK(vectors_read(&vectors, "link_core.txt"));
    golden = golden_section(SECTION_BYTES);
    memset(memory, 0, 4096);
    write_linux_section(memory);
    /* One session and one ring before the values of the file. */
    *hythe_word(memory + SECTION_BYTES, HYTHE_CORE_AT_SESSION) =
        vectors_number(&vectors, "header", "session") - 1;
    *hythe_word(memory + SECTION_BYTES, 64) = vectors_number(&vectors, "bell", "bell_count") - 1;
    for (i = 0; i < 2; i++) {
        char group[32];
        snprintf(group, sizeof group, "record.%u", i);
        endpoints[i].name = vectors_text(&vectors, group, "name");
        endpoints[i].direction = vectors_number(&vectors, group, "direction");
        endpoints[i].max_bytes = vectors_number(&vectors, group, "max_bytes");
        endpoints[i].type = vectors_number(&vectors, group, "type");
    }
    memset(&config, 0, sizeof config);
    config.link = memory;
    config.link_bytes = 4096;
    config.region = region;
    config.region_bytes = sizeof region;
    config.name = vectors_text(&vectors, "header", "name");
    config.endpoints = endpoints;
    config.endpoint_count = 2;
    config.sleeps_by_itself = vectors_number(&vectors, "bell", "bell_wanted");
    config.port = &port;
    CHECK_EQUAL(hythe_link_start(&link, &config), HYTHE_OK);
    CHECK_EQUAL(hythe_link_service(&link), HYTHE_OK);
    count_as_in_the_file(&link);
    write_flows(&link);
    CHECK(memcmp(memory + SECTION_BYTES, golden, SECTION_BYTES) == 0);
    free(golden);
    free(memory);
}

void test_vectors(void)
{
    RUN(descriptors_make_these_bytes);
    RUN(layouts_have_these_offsets);
    RUN(a_linux_section_is_read_as_these_fields);
    RUN(a_core_section_is_written_as_these_bytes);
}
