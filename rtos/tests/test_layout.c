/*
 * Sizes and geometry: what is accepted, what is refused, and where a slot is. Offsets themselves:
 * test_vectors.c.
 */
#include <string.h>

#include "geometry.h"
#include "layout.h"
#include "shared.h"
#include "test.h"

static struct hythe_geometry sane(void)
{
    struct hythe_geometry geometry;

    memset(&geometry, 0, sizeof geometry);
    geometry.version = 2;
    geometry.line_bytes = 64;
    geometry.section_bytes = 8192;
    geometry.endpoints = 4;
    geometry.ports = 2;
    geometry.capacity = 16;
    geometry.region_bytes = 1u << 20;
    geometry.classes = 2;
    geometry.headroom = 256;
    geometry.slot_class[0] = (struct hythe_slot_class){4096, 16, 0, 0};
    geometry.slot_class[1] = (struct hythe_slot_class){20480, 4, 16, 65536};
    return geometry;
}

static uint32_t check(const struct hythe_geometry *geometry)
{
    return hythe_geometry_check(geometry, 16384, 1u << 20, 3);
}

static int possible(uint32_t line_bytes, uint32_t endpoints, uint32_t ports, uint32_t capacity)
{
    struct hythe_sizes sizes = {line_bytes, endpoints, ports, capacity};

    return hythe_layout_possible(&sizes);
}

static void sizes_outside_the_limits_are_impossible(void)
{
    CHECK(possible(64, 1, 8, 2));
    CHECK(possible(1024, 16, 8, 4096));
    CHECK(!possible(32, 1, 8, 2));
    CHECK(!possible(96, 1, 8, 2));
    CHECK(!possible(2048, 1, 8, 2));
    CHECK(!possible(64, 0, 8, 2));
    CHECK(!possible(64, 17, 8, 2));
    CHECK(!possible(64, 1, 8, 1));
    CHECK(!possible(64, 1, 8, 3));
    CHECK(!possible(64, 1, 8, 8192));
    CHECK(possible(64, 1, 1, 2));
    CHECK(!possible(64, 1, 0, 2));
    CHECK(!possible(64, 1, 9, 2));
    CHECK(!possible(64, 1, 0xFFFFFFFFu, 2));
    CHECK(!possible(0, 0xFFFFFFFFu, 8, 0x80000000u));
}

static void a_sane_geometry_is_accepted(void)
{
    struct hythe_geometry geometry = sane();

    CHECK_EQUAL(check(&geometry), HYTHE_REASON_NONE);
}

/* Changes one field of a sane geometry and expects this reason. */
#define REFUSED(change, expected)                                                                  \
    do {                                                                                           \
        struct hythe_geometry geometry = sane();                                                   \
        change;                                                                                    \
        CHECK_EQUAL(check(&geometry), expected);                                                   \
    } while (0)

static void each_bad_field_is_refused(void)
{
    REFUSED(geometry.version = 1, HYTHE_REASON_VERSION);
    REFUSED(geometry.line_bytes = 0, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.section_bytes = 8192 + 64, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.section_bytes = 8192 - 4, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.section_bytes = 1024, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.section_bytes = 0xFFFFFFC0u, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.endpoints = 2, HYTHE_REASON_ENDPOINTS);
    REFUSED(geometry.endpoints = 17, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.ports = 0, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.ports = 9, HYTHE_REASON_PORTS);
    REFUSED(geometry.ports = 0xFFFFFFFFu, HYTHE_REASON_PORTS);
    REFUSED(geometry.capacity = 4096, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.region = 256, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.region_bytes = (1u << 20) + 1, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.headroom = 128, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.classes = 0, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.classes = 5, HYTHE_REASON_GEOMETRY);
}

static void each_bad_class_is_refused(void)
{
    REFUSED(geometry.slot_class[1].slot_bytes = 0, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].slot_bytes = 256, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].slot_bytes = 20481, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].slot_count = 0, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].slot_count = 0x01000000, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].slot_bytes = 0xFFFFFFC0u, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].first_slot = 15, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].first_slot = 0xFFFFFF, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].first_slot = 0xFFFFFFFFu, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].region_offset = 61440, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].region_offset = 65537, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].region_offset = 1u << 20, HYTHE_REASON_GEOMETRY);
    REFUSED(geometry.slot_class[1].region_offset = 0xFFFFFFC0u, HYTHE_REASON_GEOMETRY);
}

static void slots_are_found_at_the_edges_of_classes(void)
{
    struct hythe_geometry geometry = sane();
    uint32_t offset = 1;
    uint32_t bytes = 1;

    CHECK(hythe_geometry_slot(&geometry, 0, &offset, &bytes));
    CHECK(offset == 0 && bytes == 4096);
    CHECK(hythe_geometry_slot(&geometry, 15, &offset, &bytes));
    CHECK(offset == 15 * 4096 && bytes == 4096);
    CHECK(hythe_geometry_slot(&geometry, 16, &offset, &bytes));
    CHECK(offset == 65536 && bytes == 20480);
    CHECK(hythe_geometry_slot(&geometry, 19, &offset, &bytes));
    CHECK(offset == 65536 + 3 * 20480 && bytes == 20480);
    CHECK(!hythe_geometry_slot(&geometry, 20, &offset, &bytes));
    CHECK(!hythe_geometry_slot(&geometry, 0xFFFFFF, &offset, &bytes));
}

void test_layout(void)
{
    RUN(sizes_outside_the_limits_are_impossible);
    RUN(a_sane_geometry_is_accepted);
    RUN(each_bad_field_is_refused);
    RUN(each_bad_class_is_refused);
    RUN(slots_are_found_at_the_edges_of_classes);
}
