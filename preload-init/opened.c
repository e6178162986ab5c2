/* Files of a pack: see opened.h. Never opens what is known to be another file. */
#include "opened.h"

#include <stddef.h>

#include "system.h"

#define NS_PER_SECOND 1000000000u

enum {
    STATE_UNSEEN,
    STATE_COUNTED,
    STATE_SKIPPED
};

void opened_begin(struct opened *opened, const struct hythe_pack *pack, long root, uint8_t *state)
{
    uint32_t i;

    opened->pack = pack;
    opened->root = root;
    opened->state = state;
    for (i = 0; i < OPENED_FILES; i++) {
        opened->place[i].handle = -1;
    }
}

static void close_place(struct opened_file *place)
{
    if (place->handle >= 0) {
        system_close(place->handle);
        place->handle = -1;
    }
}

void opened_end(struct opened *opened)
{
    uint32_t i;

    for (i = 0; i < OPENED_FILES; i++) {
        close_place(&opened->place[i]);
    }
}

void opened_give_up(struct opened *opened, uint32_t number, enum report_skip why,
                    struct report *report)
{
    if (opened->state[number] != STATE_SKIPPED) {
        opened->state[number] = STATE_SKIPPED;
        report_skip(report, why, hythe_pack_file(opened->pack, number).path);
    }
}

void opened_count(struct opened *opened, uint32_t number, struct report *report)
{
    if (opened->state[number] == STATE_UNSEEN) {
        opened->state[number] = STATE_COUNTED;
        report->files++;
    }
}

static long open_in(struct opened *opened, const char *path)
{
    long handle = system_open(opened->root, path);

    if (handle == -ERROR_TOO_MANY_OPEN || handle == -ERROR_TABLE_FULL) {
        opened_end(opened);
        handle = system_open(opened->root, path);
    }
    return handle;
}

/*
 * Of a file of an image, one of the two may be known in whole seconds only: SquashFS and JFFS2 keep
 * no more.
 */
static int is_recorded_time(const struct hythe_pack *pack, int64_t recorded_ns,
                            const struct system_file *found)
{
    uint64_t recorded = (uint64_t)recorded_ns; /* unsigned: a pack may claim any time */
    uint64_t now = (uint64_t)found->mtime_ns;

    if (recorded == now || pack->inodes_count) {
        return recorded == now;
    }
    return found->mtime_part_ns == 0 ? recorded - now < NS_PER_SECOND
                                     : recorded == now - found->mtime_part_ns;
}

static int is_recorded(const struct hythe_pack *pack, const struct hythe_pack_file *file,
                       const struct system_file *found)
{
    return found->is_regular && found->size == file->size &&
           is_recorded_time(pack, file->mtime_ns, found) &&
           (!pack->inodes_count || found->inode == file->inode);
}

const struct opened_file *opened_get(struct opened *opened, uint32_t number, struct report *report)
{
    struct opened_file *place = &opened->place[number % OPENED_FILES];
    struct hythe_pack_file file = hythe_pack_file(opened->pack, number);
    struct system_file found;

    if (opened->state[number] == STATE_SKIPPED) {
        return NULL;
    }
    if (place->handle >= 0 && place->number == number) {
        return place;
    }
    close_place(place);
    place->handle = open_in(opened, file.path);
    place->number = number;
    if (place->handle < 0) {
        int missing = place->handle == -ERROR_NO_ENTRY || place->handle == -ERROR_NO_DIRECTORY;

        opened_give_up(opened, number, missing ? REPORT_MISSING : REPORT_BROKEN, report);
        return NULL;
    }
    if (system_stat(place->handle, &found) != 0) {
        opened_give_up(opened, number, REPORT_BROKEN, report);
        return NULL;
    }
    if (!is_recorded(opened->pack, &file, &found)) {
        opened_give_up(opened, number, REPORT_CHANGED, report);
        return NULL;
    }
    place->device = found.device;
    system_read_exactly(place->handle);
    return place;
}
