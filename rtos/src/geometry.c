/*
 * Copying Linux's geometry and judging the copy. Called by link.c when it meets an agent, and by
 * take.c for each slot. Judges private copies only; never writes shared memory.
 */
#include "geometry.h"

#include "layout.h"
#include "shared.h"

#define CLASS_BYTES 16u
#define SLOT_MAX 0x00FFFFFFu
#define REGION_MAX 255u

/* Headroom of the descriptor page. */
#define HEADROOM 256u

static uint32_t header_word(const struct hythe_port *port, const volatile uint8_t *section,
                            uint32_t offset)
{
    return hythe_read(port, hythe_const_word(section, offset));
}

void hythe_geometry_copy(struct hythe_geometry *geometry, const struct hythe_port *port,
                         const volatile uint8_t *linux_section, size_t readable_bytes)
{
    uint32_t i;
    uint32_t at;

    geometry->version = header_word(port, linux_section, HYTHE_LINUX_AT_VERSION);
    geometry->line_bytes = header_word(port, linux_section, HYTHE_LINUX_AT_LINE_BYTES);
    geometry->section_bytes = header_word(port, linux_section, HYTHE_LINUX_AT_SECTION_BYTES);
    geometry->endpoints = header_word(port, linux_section, HYTHE_LINUX_AT_ENDPOINTS);
    geometry->ports = header_word(port, linux_section, HYTHE_LINUX_AT_PORTS);
    geometry->capacity = header_word(port, linux_section, HYTHE_LINUX_AT_CAPACITY);
    geometry->region = header_word(port, linux_section, HYTHE_LINUX_AT_REGION);
    geometry->region_bytes = header_word(port, linux_section, HYTHE_LINUX_AT_REGION_BYTES);
    geometry->classes = header_word(port, linux_section, HYTHE_LINUX_AT_CLASSES);
    geometry->headroom = header_word(port, linux_section, HYTHE_LINUX_AT_HEADROOM);

    for (i = 0; i < HYTHE_MAX_CLASSES; i++) {
        struct hythe_slot_class *slot_class = &geometry->slot_class[i];
        /*
         * An absurd line size must not lead the reads out of the link, nor make the sum overflow.
         */
        int readable =
            geometry->line_bytes <= HYTHE_LINE_MAX &&
            geometry->line_bytes % sizeof(uint32_t) == 0 &&
            2 * (size_t)geometry->line_bytes + HYTHE_MAX_CLASSES * CLASS_BYTES <= readable_bytes;
        at = readable ? 2 * geometry->line_bytes + i * CLASS_BYTES : 0;
        slot_class->slot_bytes = readable ? header_word(port, linux_section, at) : 0;
        slot_class->slot_count = readable ? header_word(port, linux_section, at + 4) : 0;
        slot_class->first_slot = readable ? header_word(port, linux_section, at + 8) : 0;
        slot_class->region_offset = readable ? header_word(port, linux_section, at + 12) : 0;
    }
}

/* 64-bit sums: each factor is a claimed 32-bit word. */
static int class_fits(const struct hythe_slot_class *slot_class,
                      const struct hythe_geometry *geometry)
{
    uint64_t bytes = (uint64_t)slot_class->slot_bytes * slot_class->slot_count;

    return slot_class->slot_bytes > geometry->headroom &&
           slot_class->slot_bytes % geometry->line_bytes == 0 &&
           slot_class->region_offset % geometry->line_bytes == 0 && slot_class->slot_count >= 1 &&
           (uint64_t)slot_class->first_slot + slot_class->slot_count - 1 <= SLOT_MAX &&
           slot_class->region_offset + bytes <= geometry->region_bytes;
}

static int ranges_overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length)
{
    return a < b + b_length && b < a + a_length;
}

static int classes_overlap(const struct hythe_slot_class *a, const struct hythe_slot_class *b)
{
    return ranges_overlap(a->first_slot, a->slot_count, b->first_slot, b->slot_count) ||
           ranges_overlap(a->region_offset, (uint64_t)a->slot_bytes * a->slot_count,
                          b->region_offset, (uint64_t)b->slot_bytes * b->slot_count);
}

static int classes_valid(const struct hythe_geometry *geometry)
{
    uint32_t i;
    uint32_t j;

    if (geometry->classes < 1 || geometry->classes > HYTHE_MAX_CLASSES) {
        return 0;
    }
    for (i = 0; i < geometry->classes; i++) {
        if (!class_fits(&geometry->slot_class[i], geometry)) {
            return 0;
        }
        for (j = 0; j < i; j++) {
            if (classes_overlap(&geometry->slot_class[i], &geometry->slot_class[j])) {
                return 0;
            }
        }
    }
    return 1;
}

static struct hythe_sizes sizes_of(const struct hythe_geometry *geometry)
{
    struct hythe_sizes sizes;

    sizes.line_bytes = geometry->line_bytes;
    sizes.endpoints = geometry->endpoints;
    sizes.ports = geometry->ports;
    sizes.capacity = geometry->capacity;
    return sizes;
}

void hythe_geometry_layout(const struct hythe_geometry *geometry, struct hythe_layout *layout)
{
    struct hythe_sizes sizes = sizes_of(geometry);

    hythe_layout_compute(layout, &sizes);
}

static int sections_valid(const struct hythe_geometry *geometry, size_t link_bytes)
{
    struct hythe_sizes sizes = sizes_of(geometry);
    struct hythe_layout layout;

    if (!hythe_layout_possible(&sizes)) {
        return 0;
    }
    hythe_layout_compute(&layout, &sizes);
    return geometry->section_bytes % geometry->line_bytes == 0 &&
           geometry->section_bytes >= layout.needed_bytes &&
           geometry->section_bytes <= link_bytes / 2;
}

uint32_t hythe_geometry_check(const struct hythe_geometry *geometry, size_t link_bytes,
                              size_t region_bytes, uint32_t endpoint_count)
{
    if (geometry->version != HYTHE_VERSION) {
        return HYTHE_REASON_VERSION;
    }
    /* Before the geometry: a count beyond the page's limit deserves the reason that names it. */
    if (geometry->ports > HYTHE_MAX_PORTS) {
        return HYTHE_REASON_PORTS;
    }
    if (!sections_valid(geometry, link_bytes) || geometry->headroom != HEADROOM ||
        geometry->region > REGION_MAX || geometry->region_bytes > region_bytes ||
        !classes_valid(geometry)) {
        return HYTHE_REASON_GEOMETRY;
    }
    if (endpoint_count > geometry->endpoints) {
        return HYTHE_REASON_ENDPOINTS;
    }
    return HYTHE_REASON_NONE;
}

int hythe_geometry_slot(const struct hythe_geometry *geometry, uint32_t slot,
                        uint32_t *region_offset, uint32_t *slot_bytes)
{
    uint32_t i;

    for (i = 0; i < geometry->classes; i++) {
        const struct hythe_slot_class *slot_class = &geometry->slot_class[i];
        if (slot >= slot_class->first_slot &&
            slot - slot_class->first_slot < slot_class->slot_count) {
            *slot_bytes = slot_class->slot_bytes;
            *region_offset = slot_class->region_offset +
                             (slot - slot_class->first_slot) * slot_class->slot_bytes;
            return 1;
        }
    }
    return 0;
}
