/* Ways of reading: see reading.h. Never keeps a byte of what it read. */
#include "reading.h"

#include "system.h"

enum {
    /* Read at once: small beside any memory, large enough for a flash to be busy. */
    BUFFER_BYTES = 65536,
    MAGIC_UBIFS = 0x24051905,
    MAGIC_JFFS2 = 0x72b6,
    /*
     * How long the first page may stay away. Too short costs speed only: then this file system is
     * read from.
     */
    TRIAL_LOOKS = 25,
    TRIAL_PAUSE_MS = 2
};

/* Where what is read goes to: the page cache keeps it, we do not. */
static unsigned char bytes_read[BUFFER_BYTES];

enum reading_way *reading_way_of(struct reading *reading, uint64_t device, long handle)
{
    uint32_t magic;
    unsigned i;

    for (i = 0; i < reading->systems; i++) {
        if (reading->system[i].device == device) {
            return &reading->system[i].way;
        }
    }
    /* More file systems than places: the last place serves in turn, and is tried out anew. */
    i = reading->systems < READING_SYSTEMS ? reading->systems++ : READING_SYSTEMS - 1;
    reading->system[i].device = device;
    reading->system[i].way = READING_UNKNOWN;
    if (system_file_system(handle, &magic) == 0 && (magic == MAGIC_UBIFS || magic == MAGIC_JFFS2)) {
        reading->system[i].way = READING_READS;
    }
    return &reading->system[i].way;
}

static long read_all(long handle, uint64_t offset, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        size_t piece = bytes - done < BUFFER_BYTES ? bytes - done : BUFFER_BYTES;
        long got = system_pread(handle, bytes_read, piece, offset + done);

        if (got < 0) {
            return got;
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    return (long)done;
}

/*
 * Asks for a step and looks whether that loads its first page. Reading the last byte of several
 * pages waits for the last page only; where readahead() is honoured the others were on their way
 * before it.
 */
static enum reading_way try_out(long handle, uint64_t offset, size_t bytes)
{
    int looks;

    /* What was there before shows nothing. */
    if (system_is_resident(handle, offset) != 0) {
        return READING_UNKNOWN;
    }
    if (system_readahead(handle, offset, bytes) != 0) {
        return READING_READS;
    }
    if (!system_is_same_page(offset, offset + bytes - 1) &&
        system_pread(handle, bytes_read, 1, offset + bytes - 1) != 1) {
        return READING_UNKNOWN;
    }
    for (looks = 0; looks < TRIAL_LOOKS; looks++) {
        if (system_is_resident(handle, offset) == 1) {
            return READING_QUEUES;
        }
        system_sleep_ms(TRIAL_PAUSE_MS);
    }
    return READING_READS;
}

long reading_step(long handle, enum reading_way *way, uint64_t offset, size_t bytes)
{
    if (*way == READING_UNKNOWN) {
        *way = try_out(handle, offset, bytes);
        /* What the trial asked for is read now: it may have loaded nothing. */
        return read_all(handle, offset, bytes);
    }
    if (*way == READING_QUEUES && system_readahead(handle, offset, bytes) == 0) {
        return (long)bytes;
    }
    return read_all(handle, offset, bytes);
}
