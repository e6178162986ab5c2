/* Offsets of a link's parts. Called by geometry.c and link.c; touches no memory but its result. */
#include "layout.h"

#include "shared.h"

#define ENDPOINTS_MAX 16u
#define PORTS_MAX 8u
#define CAPACITY_MIN 2u
#define CAPACITY_MAX 4096u

static int is_power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

int hythe_layout_possible(const struct hythe_sizes *sizes)
{
    return is_power_of_two(sizes->line_bytes) && sizes->line_bytes >= HYTHE_LINE_MIN &&
           sizes->line_bytes <= HYTHE_LINE_MAX && sizes->endpoints >= 1 &&
           sizes->endpoints <= ENDPOINTS_MAX && sizes->ports >= 1 && sizes->ports <= PORTS_MAX &&
           is_power_of_two(sizes->capacity) && sizes->capacity >= CAPACITY_MIN &&
           sizes->capacity <= CAPACITY_MAX;
}

void hythe_layout_compute(struct hythe_layout *layout, const struct hythe_sizes *sizes)
{
    uint32_t line = sizes->line_bytes;
    uint32_t flows = sizes->endpoints * sizes->ports;
    /* At most 16 x 8 x 4096 x 32 = 16 MiB of entries and some KiB of lines: far from 2^32. */
    uint32_t entries_bytes = flows * sizes->capacity * HYTHE_ENTRY_BYTES;
    uint32_t records_bytes = (sizes->endpoints * HYTHE_RECORD_BYTES + line - 1) / line * line;

    layout->linux_bell = line;
    layout->linux_classes = 2 * line;
    layout->linux_flow = 3 * line;
    layout->linux_entries = layout->linux_flow + flows * line;
    layout->linux_bytes = layout->linux_entries + entries_bytes;

    layout->core_bell = line;
    layout->core_records = 2 * line;
    layout->core_flow = layout->core_records + records_bytes;
    layout->core_entries = layout->core_flow + flows * line;
    layout->core_bytes = layout->core_entries + entries_bytes;

    layout->needed_bytes =
        layout->core_bytes > layout->linux_bytes ? layout->core_bytes : layout->linux_bytes;
}
