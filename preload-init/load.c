/*
 * Loading the pack: see load.h. Never reads a pack that would not fit into half of the free memory.
 */
#include "load.h"

#include <stddef.h>

#include "system.h"
#include "text.h"

enum {
    PATH_BYTES = 4096
};

static int fail(struct report *report, enum report_end end, long error)
{
    report->end = end;
    report->error = error;
    return -1;
}

/* Whether the file PACK.off stands beside the pack. */
static int is_switched_off(long root, const char *pack)
{
    static const char ending[] = ".off";
    char path[PATH_BYTES];
    size_t length = text_length(pack);
    size_t i;

    if (length + sizeof ending > sizeof path) {
        return 0;
    }
    for (i = 0; i < length; i++) {
        path[i] = pack[i];
    }
    for (i = 0; i < sizeof ending; i++) {
        path[length + i] = ending[i];
    }
    return system_exists(root, path);
}

static int read_whole(long handle, uint8_t *to, size_t bytes, struct report *report)
{
    size_t done = 0;

    while (done < bytes) {
        long got = system_pread(handle, to + done, bytes - done, done);

        if (got < 0) {
            return fail(report, REPORT_UNREADABLE, got);
        }
        if (got == 0) {
            /* It became shorter meanwhile. */
            return fail(report, REPORT_UNREADABLE, -ERROR_IO);
        }
        done += (size_t)got;
    }
    return 0;
}

static int load_from(struct load *load, long handle, struct report *report)
{
    struct system_file file;
    struct system_memory memory;
    long error = system_stat(handle, &file);
    uint8_t *bytes;
    size_t size;

    if (error != 0 || !file.is_regular) {
        return fail(report, REPORT_UNREADABLE, error != 0 ? error : -ERROR_INVALID);
    }
    report->pack_bytes = file.size;
    if (file.size > HYTHE_PACK_MAX_BYTES) {
        report->fault = HYTHE_PACK_SIZE;
        return fail(report, REPORT_REFUSED, 0);
    }
    size = (size_t)file.size;
    /*
     * Asking for more than there is would not fail here, but kill somebody later. An empty file
     * cannot be mapped.
     */
    if (system_memory(&memory) != 0 || size > memory.free / 2) {
        return fail(report, REPORT_NO_MEMORY, -ERROR_NO_MEMORY);
    }
    /*
     * A file takes 32 bytes in the pack: so many files it has at most, each with a byte of state.
     */
    bytes = system_allocate(size + size / 32 + 1);
    if (bytes == NULL) {
        return fail(report, REPORT_NO_MEMORY, -ERROR_NO_MEMORY);
    }
    if (read_whole(handle, bytes, size, report) != 0) {
        return -1;
    }
    report->fault = hythe_pack_open(&load->pack, bytes, size);
    if (report->fault != HYTHE_PACK_GOOD) {
        return fail(report, REPORT_REFUSED, 0);
    }
    load->file_state = bytes + size;
    return 0;
}

int load_pack(struct load *load, long root, const struct options *options, struct report *report)
{
    long handle;
    int result;

    if (is_switched_off(root, options->pack)) {
        return fail(report, REPORT_OFF, 0);
    }
    handle = system_open(root, options->pack);
    if (handle < 0) {
        return fail(report, REPORT_NO_PACK, handle);
    }
    result = load_from(load, handle, report);
    system_close(handle);
    return result;
}
