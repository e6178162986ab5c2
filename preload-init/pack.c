/*
 * Reading packs: see pack.h for what holds, and spec/pack.md for the bytes. Never believes a number
 * before it is checked.
 */
#include "pack.h"

enum {
    HEADER_BYTES = 40,
    FILE_BYTES = 32,
    EXTENT_BYTES = 12,
    CHECKED_FROM = 16,
    MAX_FILES = 65536,
    MAX_EXTENTS = 1048576,
    MAX_PATHS = 16777216,
    MAX_PATH = 4095,
    VERSION = 1,
    FLAG_ANY_INODE = 1
};

static const uint8_t magic[8] = {'H', 'Y', 'T', 'H', 'E', 'P', 'K', 1};

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t read_u64(const uint8_t *at)
{
    return read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
}

/*
 * CRC-32C, four bits at a step: a table of 64 bytes instead of 1 KiB, and twice as fast as bit by
 * bit.
 */
static uint32_t checksum(const uint8_t *bytes, size_t size)
{
    static const uint32_t step[16] = {
        0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u,
        0x61c69362u, 0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
        0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
    };
    uint32_t sum = 0xffffffffu;
    size_t i;

    for (i = 0; i < size; i++) {
        sum ^= bytes[i];
        sum = sum >> 4 ^ step[sum & 15u];
        sum = sum >> 4 ^ step[sum & 15u];
    }
    return sum ^ 0xffffffffu;
}

static int same_magic(const uint8_t *bytes)
{
    size_t i;

    for (i = 0; i < sizeof magic; i++) {
        if (bytes[i] != magic[i]) {
            return 0;
        }
    }
    return 1;
}

struct hythe_pack_file hythe_pack_file(const struct hythe_pack *pack, uint32_t number)
{
    const uint8_t *at = pack->bytes + HEADER_BYTES + (size_t)number * FILE_BYTES;
    struct hythe_pack_file file;

    file.size = read_u64(at);
    /* Two's complement, as every compiler that builds this converts it. */
    file.mtime_ns = (int64_t)read_u64(at + 8);
    file.inode = read_u64(at + 16);
    file.path = (const char *)pack->bytes + pack->paths_at + read_u32(at + 24);
    file.path_bytes = read_u32(at + 28);
    return file;
}

struct hythe_pack_extent hythe_pack_extent(const struct hythe_pack *pack, uint32_t number)
{
    const uint8_t *at = pack->bytes + HEADER_BYTES + (size_t)pack->files * FILE_BYTES +
                        (size_t)number * EXTENT_BYTES;
    struct hythe_pack_extent extent;

    extent.file = read_u32(at);
    extent.first_page = read_u32(at + 4);
    extent.pages = read_u32(at + 8);
    return extent;
}

/*
 * One path: `at` is where it must begin, `room` what the part has from there on, the zero included.
 */
static enum hythe_pack_fault check_path(const struct hythe_pack *pack, uint32_t number, uint32_t at,
                                        uint32_t room)
{
    const uint8_t *entry = pack->bytes + HEADER_BYTES + (size_t)number * FILE_BYTES;
    const uint8_t *path = pack->bytes + pack->paths_at + at;
    uint32_t begins = read_u32(entry + 24);
    uint32_t length = read_u32(entry + 28);
    uint32_t i;

    if (length == 0) {
        return HYTHE_PACK_PATH_EMPTY;
    }
    if (length > MAX_PATH) {
        return HYTHE_PACK_PATH_LONG;
    }
    if (begins != at) {
        return HYTHE_PACK_PATH_ELSEWHERE;
    }
    if (room <= length || path[length] != 0) {
        return HYTHE_PACK_PATH_UNENDED;
    }
    if (path[0] != '/') {
        return HYTHE_PACK_PATH_RELATIVE;
    }
    for (i = 0; i < length; i++) {
        if (path[i] == 0) {
            return HYTHE_PACK_PATH_ZERO;
        }
    }
    return HYTHE_PACK_GOOD;
}

static enum hythe_pack_fault check_paths(const struct hythe_pack *pack, uint32_t path_bytes)
{
    enum hythe_pack_fault fault;
    uint32_t at = 0;
    uint32_t i;

    for (i = 0; i < pack->files; i++) {
        fault = check_path(pack, i, at, path_bytes - at);
        if (fault != HYTHE_PACK_GOOD) {
            return fault;
        }
        at += hythe_pack_file(pack, i).path_bytes + 1;
    }
    return at == path_bytes ? HYTHE_PACK_GOOD : HYTHE_PACK_PATH_LEFT_OVER;
}

static enum hythe_pack_fault check_extents(const struct hythe_pack *pack)
{
    struct hythe_pack_extent extent;
    uint64_t size;
    uint64_t pages_there;
    uint32_t i;

    for (i = 0; i < pack->extents; i++) {
        extent = hythe_pack_extent(pack, i);
        if (extent.file >= pack->files) {
            return HYTHE_PACK_EXTENT_FILE;
        }
        if (extent.pages == 0) {
            return HYTHE_PACK_EXTENT_EMPTY;
        }
        size = hythe_pack_file(pack, extent.file).size;
        /* Not rounded up by adding: a size may be anything up to 2^64 - 1. */
        pages_there = size / HYTHE_PACK_PAGE_BYTES + (size % HYTHE_PACK_PAGE_BYTES != 0);
        if ((uint64_t)extent.first_page + extent.pages > pages_there) {
            return HYTHE_PACK_EXTENT_END;
        }
    }
    return HYTHE_PACK_GOOD;
}

/* What the header says of itself and of the bytes as a whole. */
static enum hythe_pack_fault check_header(const uint8_t *bytes, size_t size)
{
    uint64_t sum;

    if (size < HEADER_BYTES) {
        return HYTHE_PACK_SHORT;
    }
    if (!same_magic(bytes)) {
        return HYTHE_PACK_MAGIC;
    }
    if (read_u32(bytes + 8) != VERSION) {
        return HYTHE_PACK_VERSION;
    }
    if (read_u32(bytes + 16) != size) {
        return HYTHE_PACK_SIZE;
    }
    if (read_u32(bytes + 12) != checksum(bytes + CHECKED_FROM, size - CHECKED_FROM)) {
        return HYTHE_PACK_CHECKSUM;
    }
    if (read_u32(bytes + 36) != HYTHE_PACK_PAGE_BYTES) {
        return HYTHE_PACK_PAGE;
    }
    if (read_u32(bytes + 24) > MAX_FILES) {
        return HYTHE_PACK_FILES;
    }
    if (read_u32(bytes + 28) > MAX_EXTENTS) {
        return HYTHE_PACK_EXTENTS;
    }
    if (read_u32(bytes + 32) > MAX_PATHS) {
        return HYTHE_PACK_PATHS;
    }
    sum = HEADER_BYTES + (uint64_t)read_u32(bytes + 24) * FILE_BYTES +
          (uint64_t)read_u32(bytes + 28) * EXTENT_BYTES + read_u32(bytes + 32);
    return sum == size ? HYTHE_PACK_GOOD : HYTHE_PACK_SUM;
}

enum hythe_pack_fault hythe_pack_open(struct hythe_pack *pack, const void *bytes, size_t size)
{
    enum hythe_pack_fault fault = check_header(bytes, size);

    if (fault != HYTHE_PACK_GOOD) {
        return fault;
    }
    pack->bytes = bytes;
    pack->files = read_u32(pack->bytes + 24);
    pack->extents = read_u32(pack->bytes + 28);
    pack->paths_at = HEADER_BYTES + pack->files * FILE_BYTES + pack->extents * EXTENT_BYTES;
    pack->inodes_count = (read_u32(pack->bytes + 20) & FLAG_ANY_INODE) == 0;
    fault = check_paths(pack, read_u32(pack->bytes + 32));
    return fault != HYTHE_PACK_GOOD ? fault : check_extents(pack);
}

const char *hythe_pack_fault_text(enum hythe_pack_fault fault)
{
    static const char *const texts[HYTHE_PACK_FAULTS] = {
        "nothing",
        "shorter than a header",
        "magic",
        "version",
        "its size is not what the header says",
        "checksum",
        "page size",
        "too many files",
        "too many extents",
        "too many bytes of paths",
        "sum of the parts",
        "an empty path",
        "a path that is too long",
        "a path that begins elsewhere",
        "a path that is not absolute",
        "a path with a zero inside",
        "a path without a zero behind it",
        "bytes behind the last path",
        "an extent of a file that is not there",
        "an extent without pages",
        "an extent past the end of its file",
    };

    return (unsigned)fault < HYTHE_PACK_FAULTS ? texts[fault] : "unknown";
}
