/*
 * The reader of packs against the golden vectors, and against packs that were damaged. Never trusts
 * the reader with its own writing.
 */
#include <stdlib.h>
#include <string.h>

#include "../pack.h"
#include "test.h"
#include "vectors.h"

enum {
    PACK_ROOM = 4096
};

static unsigned accepted;
static unsigned refused;

static void leave_seed(const char *name, const uint8_t *bytes, size_t size)
{
    char path[1024];
    FILE *stream;

    snprintf(path, sizeof path, "%s/%s", vectors_seeds, name);
    stream = fopen(path, "wb");
    CHECK(stream != NULL && fwrite(bytes, 1, size, stream) == size);
    if (stream != NULL) {
        fclose(stream);
    }
}

/* In memory of exactly its size, so that a byte read behind it is found. */
static uint8_t *exactly(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    CHECK(copy != NULL);
    if (copy != NULL) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

static void check_file(const struct vector_group *group, const struct hythe_pack *pack, uint32_t i)
{
    struct hythe_pack_file file = hythe_pack_file(pack, i);
    char key[64];

    snprintf(key, sizeof key, "file.%u.path", i);
    CHECK_TEXT(file.path, vector_text(group, key));
    CHECK_EQUAL(file.path_bytes, strlen(file.path));
    snprintf(key, sizeof key, "file.%u.size", i);
    CHECK_EQUAL(file.size, vector_number(group, key));
    snprintf(key, sizeof key, "file.%u.mtime_ns", i);
    CHECK_EQUAL(file.mtime_ns, vector_number(group, key));
    snprintf(key, sizeof key, "file.%u.inode", i);
    CHECK_EQUAL(file.inode, vector_number(group, key));
}

static unsigned check_extent(const struct vector_group *group, const struct hythe_pack *pack,
                             uint32_t i)
{
    struct hythe_pack_extent extent = hythe_pack_extent(pack, i);
    char key[64];
    char value[64];

    snprintf(key, sizeof key, "extent.%u", i);
    snprintf(value, sizeof value, "%u %u %u", extent.file, extent.first_page, extent.pages);
    CHECK_TEXT(value, vector_text(group, key));
    return extent.pages;
}

static void check_accepted(const struct vector_group *group, const uint8_t *bytes, size_t size)
{
    struct hythe_pack pack;
    enum hythe_pack_fault fault = hythe_pack_open(&pack, bytes, size);
    unsigned pages = 0;
    uint32_t i;

    accepted++;
    CHECK_EQUAL(fault, HYTHE_PACK_GOOD);
    if (fault != HYTHE_PACK_GOOD) {
        printf("[%s] is refused: %s\n", group->name, hythe_pack_fault_text(fault));
        return;
    }
    CHECK_EQUAL(pack.inodes_count, (vector_number(group, "flags") & 1) == 0);
    CHECK_EQUAL(pack.files, vector_number(group, "files"));
    CHECK_EQUAL(pack.extents, vector_number(group, "extents"));
    for (i = 0; i < pack.files; i++) {
        check_file(group, &pack, i);
    }
    for (i = 0; i < pack.extents; i++) {
        pages += check_extent(group, &pack, i);
    }
    CHECK_EQUAL(pages, vector_number(group, "pages"));
}

static void check_group(const struct vector_group *group)
{
    uint8_t bytes[PACK_ROOM];
    size_t size = vector_bytes(group, bytes, sizeof bytes);
    uint8_t *copy = exactly(bytes, size);
    struct hythe_pack pack;

    leave_seed(group->name, bytes, size);
    if (strncmp(group->name, "refused.", 8) == 0) {
        refused++;
        CHECK_TEXT(hythe_pack_fault_text(hythe_pack_open(&pack, copy, size)),
                   vector_text(group, "why"));
    } else {
        check_accepted(group, copy, size);
    }
    free(copy);
}

void test_vectors(void)
{
    accepted = 0;
    refused = 0;
    CHECK_EQUAL(vectors_each(check_group), accepted + refused);
    CHECK(accepted >= 3 && refused >= 10);
}

static void damage(const struct vector_group *group)
{
    uint8_t bytes[PACK_ROOM];
    size_t size = vector_bytes(group, bytes, sizeof bytes);
    struct hythe_pack pack;
    uint8_t *copy;
    size_t i;

    if (strcmp(group->name, "pack.player") != 0) {
        return;
    }
    accepted++;
    for (i = 0; i < size; i++) {
        copy = exactly(bytes, i);
        CHECK(hythe_pack_open(&pack, copy, i) != HYTHE_PACK_GOOD);
        free(copy);
    }
    copy = exactly(bytes, size);
    for (i = 0; i < size * 8; i++) {
        copy[i / 8] ^= (uint8_t)(1u << i % 8);
        CHECK(hythe_pack_open(&pack, copy, size) != HYTHE_PACK_GOOD);
        copy[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    CHECK_EQUAL(hythe_pack_open(&pack, copy, size), HYTHE_PACK_GOOD);
    free(copy);
}

void test_damaged_packs(void)
{
    accepted = 0;
    (void)vectors_each(damage);
    CHECK_EQUAL(accepted, 1);
}
