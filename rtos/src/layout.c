/* Offsets of a link's parts. Called by link.c; touches no memory but its result. */
#include "layout.h"

#include "shared.h"

#define ENDPOINTS_MAX 16u
#define CAPACITY_MIN 2u
#define CAPACITY_MAX 4096u

static int is_power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

int hythe_layout_possible(uint32_t line_bytes, uint32_t endpoints, uint32_t capacity)
{
    return is_power_of_two(line_bytes) && line_bytes >= HYTHE_LINE_MIN && line_bytes <= HYTHE_LINE_MAX &&
           endpoints >= 1 && endpoints <= ENDPOINTS_MAX && is_power_of_two(capacity) && capacity >= CAPACITY_MIN &&
           capacity <= CAPACITY_MAX;
}

void hythe_layout_compute(struct hythe_layout *layout, uint32_t line_bytes, uint32_t endpoints, uint32_t capacity)
{
    /* At most 16 x 4096 x 16 = 1 MiB of entries and a few KiB of lines: far from 2^32. */
    uint32_t entries_bytes = endpoints * capacity * HYTHE_ENTRY_BYTES;
    uint32_t records_bytes = (endpoints * HYTHE_RECORD_BYTES + line_bytes - 1) / line_bytes * line_bytes;

    layout->linux_bell = line_bytes;
    layout->linux_classes = 2 * line_bytes;
    layout->linux_flow = 3 * line_bytes;
    layout->linux_entries = layout->linux_flow + endpoints * line_bytes;
    layout->linux_bytes = layout->linux_entries + entries_bytes;

    layout->core_bell = line_bytes;
    layout->core_records = 2 * line_bytes;
    layout->core_flow = layout->core_records + records_bytes;
    layout->core_entries = layout->core_flow + endpoints * line_bytes;
    layout->core_bytes = layout->core_entries + entries_bytes;

    layout->needed_bytes = layout->core_bytes > layout->linux_bytes ? layout->core_bytes : layout->linux_bytes;
}
