/* The replay: see replay.h. Never goes back: what was passed by is passed by. */
#include "replay.h"

#include <stddef.h>

#include "load.h"
#include "opened.h"
#include "reading.h"
#include "system.h"
#include "text.h"

enum {
    STEP_PAGES = READING_STEP_BYTES / (int)HYTHE_PACK_PAGE_BYTES,
    /*
     * Memory that stays free: a sixteenth of all, several times what the kernel begins to reclaim
     * at, but no more than this.
     */
    FLOOR_SHIFT = 4,
    FLOOR_MOST = 256 * 1024 * 1024
};

#define NS_PER_SECOND 1000000000u

struct replay {
    const struct hythe_pack *pack;
    struct report *report;
    struct reading reading;
    struct opened opened;
    uint64_t pages_unwatched; /* read since memory and time were looked at */
    uint64_t pages_left;      /* of the budget */
    uint64_t free_floor;      /* bytes */
    uint64_t stop_ns;         /* by the monotonic clock */
};

/* What follows one another in one file, though it stands as several extents. */
struct run {
    uint32_t file;
    uint64_t first_page;
    uint64_t pages;
};

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static void set_limits(struct replay *replay, const struct options *options, uint64_t started_ns)
{
    struct system_memory memory = {0, 0};
    uint64_t share;

    (void)system_memory(&memory);
    share = text_divide(memory.free * options->budget_percent, 100);
    replay->pages_left = smaller(options->budget_bytes, share) / HYTHE_PACK_PAGE_BYTES;
    replay->free_floor = smaller(memory.total >> FLOOR_SHIFT, FLOOR_MOST);
    replay->pages_unwatched = STEP_PAGES;
    replay->stop_ns = started_ns + (uint64_t)options->seconds * NS_PER_SECOND;
    replay->report->budget_pages = replay->pages_left;
}

/* Whether a limit is reached; then the report says which. */
static int must_stop(struct replay *replay)
{
    struct system_memory memory = {0, 0};

    if (replay->pages_left == 0) {
        replay->report->end = REPORT_BUDGET;
        return 1;
    }
    /*
     * Once for each step's worth: the many extents of a page or two shall not cost two calls more
     * each.
     */
    if (replay->pages_unwatched < STEP_PAGES) {
        return 0;
    }
    replay->pages_unwatched = 0;
    if (system_memory(&memory) != 0 || memory.free < replay->free_floor + 2 * READING_STEP_BYTES) {
        replay->report->end = REPORT_MEMORY;
        return 1;
    }
    if (system_time(SYSTEM_CLOCK_MONOTONIC) >= replay->stop_ns) {
        replay->report->end = REPORT_TIME;
        return 1;
    }
    return 0;
}

/* Pages that were loaded or asked for; 0 if the file has to be given up. */
static uint64_t read_pages(struct replay *replay, const struct opened_file *file, uint64_t first,
                           uint64_t pages)
{
    enum reading_way *way = reading_way_of(&replay->reading, file->device, file->handle);
    int queues = *way == READING_QUEUES;
    long got = reading_step(file->handle, way, first * HYTHE_PACK_PAGE_BYTES,
                            (size_t)pages * HYTHE_PACK_PAGE_BYTES);

    if (got <= 0) {
        return 0;
    }
    /* The last page of a file has fewer bytes. */
    pages = ((uint64_t)got + HYTHE_PACK_PAGE_BYTES - 1) / HYTHE_PACK_PAGE_BYTES;
    replay->report->queued_pages += queues ? pages : 0;
    return pages;
}

/* 0, or 1 if a limit ends it all. */
static int read_run(struct replay *replay, struct run run)
{
    while (run.pages > 0) {
        const struct opened_file *file;
        uint64_t done;

        if (must_stop(replay)) {
            return 1;
        }
        file = opened_get(&replay->opened, run.file, replay->report);
        if (file == NULL) {
            /* Looking for it took time, too. */
            replay->pages_unwatched++;
            return 0;
        }
        done = smaller(smaller(run.pages, STEP_PAGES), replay->pages_left);
        done = read_pages(replay, file, run.first_page, done);
        if (done == 0) {
            opened_give_up(&replay->opened, run.file, REPORT_BROKEN, replay->report);
            return 0;
        }
        opened_count(&replay->opened, run.file, replay->report);
        replay->report->pages += done;
        replay->pages_left -= done;
        replay->pages_unwatched += done;
        run.first_page += done;
        run.pages -= done;
    }
    return 0;
}

static void read_extents(struct replay *replay)
{
    struct run run = {0, 0, 0};
    uint32_t i;

    for (i = 0; i < replay->pack->extents; i++) {
        struct hythe_pack_extent extent = hythe_pack_extent(replay->pack, i);

        if (run.pages > 0 && extent.file == run.file &&
            extent.first_page == run.first_page + run.pages) {
            run.pages += extent.pages;
            continue;
        }
        if (read_run(replay, run) != 0) {
            return;
        }
        run.file = extent.file;
        run.first_page = extent.first_page;
        run.pages = extent.pages;
    }
    (void)read_run(replay, run);
}

static uint64_t sum_of_pages(const struct hythe_pack *pack)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < pack->extents; i++) {
        sum += hythe_pack_extent(pack, i).pages;
    }
    return sum;
}

static void replay_below(long root, const struct options *options, struct report *report,
                         uint64_t started_ns)
{
    /* Not on the stack, whose pages we would be the first to touch. */
    static struct replay whole;
    static struct load load;

    if (load_pack(&load, root, options, report) != 0) {
        return;
    }
    whole.pack = &load.pack;
    whole.report = report;
    report->wanted_pages = sum_of_pages(&load.pack);
    set_limits(&whole, options, started_ns);
    opened_begin(&whole.opened, &load.pack, root, load.file_state);
    read_extents(&whole);
    opened_end(&whole.opened);
}

void replay(const struct options *options, struct report *report)
{
    uint64_t started_ns = system_time(SYSTEM_CLOCK_MONOTONIC);
    long root = SYSTEM_CURRENT_DIRECTORY;

    if (!text_equal(options->root, "/")) {
        root = system_open_directory(options->root);
    }
    if (root < 0 && root != SYSTEM_CURRENT_DIRECTORY) {
        report->end = REPORT_NO_ROOT;
        report->error = root;
    } else {
        replay_below(root, options, report, started_ns);
    }
    if (root >= 0) {
        system_close(root);
    }
    report->elapsed_ns = system_time(SYSTEM_CLOCK_MONOTONIC) - started_ns;
    report->boot_ns = system_time(SYSTEM_CLOCK_BOOT);
}
