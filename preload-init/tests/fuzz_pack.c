/*
 * The fuzzer's target: any bytes as a pack. Bytes that are refused as they are get a header that
 * fits them, so that what lies behind the checksum is reached, too. What is accepted must hold what
 * pack.h promises.
 *
 * Called by libFuzzer: `make -C preload-init fuzz-smoke`, or the program itself with options of
 * libFuzzer. Never keeps state.
 */
#include <stdlib.h>
#include <string.h>

#include "../pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void promise(int held)
{
    if (!held) {
        abort();
    }
}

static void check_promises(const struct hythe_pack *pack, const uint8_t *bytes, size_t size)
{
    uint32_t i;

    for (i = 0; i < pack->files; i++) {
        struct hythe_pack_file file = hythe_pack_file(pack, i);

        promise((const uint8_t *)file.path >= bytes &&
                (const uint8_t *)file.path + file.path_bytes < bytes + size);
        promise(file.path[0] == '/' && strlen(file.path) == file.path_bytes &&
                file.path_bytes <= 4095);
    }
    for (i = 0; i < pack->extents; i++) {
        struct hythe_pack_extent extent = hythe_pack_extent(pack, i);
        uint64_t last = (uint64_t)extent.first_page + extent.pages - 1;

        promise(extent.file < pack->files && extent.pages > 0);
        promise(last * HYTHE_PACK_PAGE_BYTES < hythe_pack_file(pack, extent.file).size);
    }
}

/* Bit by bit: not the reader's own way. */
static uint32_t checksum(const uint8_t *bytes, size_t size)
{
    uint32_t sum = 0xffffffffu;
    int bit;

    for (; size > 0; size--, bytes++) {
        sum ^= *bytes;
        for (bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ (0x82f63b78u & (0u - (sum & 1u)));
        }
    }
    return ~sum;
}

static void put_u32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
}

static void fit_header(uint8_t *bytes, size_t size)
{
    memcpy(bytes, "HYTHEPK\1", 8);
    put_u32(bytes + 8, 1);
    put_u32(bytes + 16, (uint32_t)size);
    put_u32(bytes + 36, 4096);
    /* Few files and extents, and the rest paths: else the sum of the parts hardly ever holds. */
    bytes[25] = bytes[26] = bytes[27] = 0;
    bytes[29] = bytes[30] = bytes[31] = 0;
    put_u32(bytes + 32, (uint32_t)(size - 40 - bytes[24] * 32u - bytes[28] * 12u));
    put_u32(bytes + 12, checksum(bytes + 16, size - 16));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct hythe_pack pack;
    enum hythe_pack_fault fault = hythe_pack_open(&pack, bytes, size);
    uint8_t *fitted;

    promise(hythe_pack_fault_text(fault) != NULL);
    if (fault == HYTHE_PACK_GOOD) {
        check_promises(&pack, bytes, size);
    }
    if (size < 40) {
        return 0;
    }
    fitted = malloc(size);
    promise(fitted != NULL);
    memcpy(fitted, bytes, size);
    fit_header(fitted, size);
    fault = hythe_pack_open(&pack, fitted, size);
    if (fault == HYTHE_PACK_GOOD) {
        check_promises(&pack, fitted, size);
    }
    free(fitted);
    return 0;
}
