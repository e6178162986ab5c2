/*
 * Linux's geometry: read once into a private copy, checked there, and from then on the only truth
 * about sizes.
 */
#ifndef HYTHE_GEOMETRY_H
#define HYTHE_GEOMETRY_H

#include "hythe_rt.h"
#include "layout.h"

/*
 * Copies the geometry out of the Linux section. The caller passes how many bytes may be read, at
 * least one line of 64; words behind `readable_bytes` are taken as 0.
 */
void hythe_geometry_copy(struct hythe_geometry *geometry, const struct hythe_port *port,
                         const volatile uint8_t *linux_section, size_t readable_bytes);

/* Why a private copy cannot be accepted (enum hythe_link_reason), or 0. */
uint32_t hythe_geometry_check(const struct hythe_geometry *geometry, size_t link_bytes,
                              size_t region_bytes, uint32_t endpoint_count);

/* The layout that a geometry which was accepted leads to. */
void hythe_geometry_layout(const struct hythe_geometry *geometry, struct hythe_layout *layout);

/*
 * 1 and the slot's place: `region_offset` from the region's base, `slot_bytes` long. 0: there is no
 * such slot.
 */
int hythe_geometry_slot(const struct hythe_geometry *geometry, uint32_t slot,
                        uint32_t *region_offset, uint32_t *slot_bytes);

#endif
