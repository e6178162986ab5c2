/*
 * Where everything stands in the two sections of a link (spec/link.md, "Sizes"). Pure arithmetic on
 * a geometry that has been checked; used by geometry.c and link.c.
 */
#ifndef HYTHE_LAYOUT_H
#define HYTHE_LAYOUT_H

#include <stdint.h>

/* Offsets in bytes, from the first byte of the section that the name says. */
struct hythe_layout {
    uint32_t linux_bell;
    uint32_t linux_classes;
    uint32_t linux_flow;
    uint32_t linux_entries;
    uint32_t linux_bytes;
    uint32_t core_bell;
    uint32_t core_records;
    uint32_t core_flow;
    uint32_t core_entries;
    uint32_t core_bytes;
    /* What a section must hold: the larger of both. */
    uint32_t needed_bytes;
};

/* The sizes that an agent chooses. */
struct hythe_sizes {
    uint32_t line_bytes;
    uint32_t endpoints;
    uint32_t ports;
    uint32_t capacity;
};

/* 1: the sizes are within the limits of the page, so that no sum below can overflow. */
int hythe_layout_possible(const struct hythe_sizes *sizes);

/* Call only with possible sizes. */
void hythe_layout_compute(struct hythe_layout *layout, const struct hythe_sizes *sizes);

#endif
