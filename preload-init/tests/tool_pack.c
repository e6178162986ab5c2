/*
 * Writes packs for behaviour.sh, from spec/pack.md alone: pack OUT [--any-inode] [--below DIR]
 * FILE:FIRST+PAGES...
 *
 * Files are taken as they are now, named by their path, without DIR in front if that is given.
 * Never looks at how pages are read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_FILES = 256,
    MOST_EXTENTS = 4096
};

static uint8_t files[MOST_FILES * 32];
static uint8_t extents[MOST_EXTENTS * 12];
static char paths[MOST_FILES * 1024];
static const char *names[MOST_FILES];
static uint32_t file_count;
static uint32_t extent_count;
static uint32_t path_bytes;
static const char *below = "";

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (; bytes > 0; bytes--) {
        *at++ = (uint8_t)value;
        value >>= 8;
    }
}

static uint32_t checksum(uint32_t sum, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    int bit;

    for (; size > 0; size--, at++) {
        sum ^= *at;
        for (bit = 0; bit < 8; bit++) {
            sum = sum >> 1 ^ (0x82f63b78u & (0u - (sum & 1u)));
        }
    }
    return sum;
}

/* The number of the file, entered if it is new. Its name must live on. */
static uint32_t enter_file(const char *path)
{
    const char *shown = path + strlen(below);
    uint8_t *at = files + file_count * 32;
    struct stat stat_of;
    uint32_t i;

    for (i = 0; i < file_count; i++) {
        if (strcmp(names[i], path) == 0) {
            return i;
        }
    }
    if (stat(path, &stat_of) != 0 || file_count == MOST_FILES ||
        strncmp(path, below, strlen(below)) != 0) {
        perror(path);
        exit(2);
    }
    put(at, (uint64_t)stat_of.st_size, 8);
    put(at + 8, (uint64_t)(stat_of.st_mtim.tv_sec * 1000000000LL + stat_of.st_mtim.tv_nsec), 8);
    put(at + 16, stat_of.st_ino, 8);
    put(at + 24, path_bytes, 4);
    put(at + 28, strlen(shown), 4);
    strcpy(paths + path_bytes, shown);
    path_bytes += (uint32_t)strlen(shown) + 1;
    names[file_count] = path;
    return file_count++;
}

static void enter_extent(char *text)
{
    char *colon = strrchr(text, ':');
    unsigned long first;
    unsigned long pages;

    if (colon == NULL || sscanf(colon + 1, "%lu+%lu", &first, &pages) != 2 ||
        extent_count == MOST_EXTENTS) {
        fprintf(stderr, "not FILE:FIRST+PAGES: %s\n", text);
        exit(2);
    }
    *colon = '\0';
    put(extents + extent_count * 12, enter_file(text), 4);
    put(extents + extent_count * 12 + 4, first, 4);
    put(extents + extent_count * 12 + 8, pages, 4);
    extent_count++;
}

static int write_pack(const char *path, uint32_t flags)
{
    uint8_t header[40] = "HYTHEPK\1";
    FILE *out = fopen(path, "wb");
    uint32_t sum;

    put(header + 8, 1, 4);
    put(header + 16, sizeof header + file_count * 32 + extent_count * 12 + path_bytes, 4);
    put(header + 20, flags, 4);
    put(header + 24, file_count, 4);
    put(header + 28, extent_count, 4);
    put(header + 32, path_bytes, 4);
    put(header + 36, 4096, 4);
    sum = checksum(0xffffffffu, header + 16, sizeof header - 16);
    sum = checksum(sum, files, file_count * 32);
    sum = checksum(sum, extents, extent_count * 12);
    put(header + 12, ~checksum(sum, paths, path_bytes), 4);
    if (out == NULL || fwrite(header, sizeof header, 1, out) != 1 ||
        fwrite(files, 32, file_count, out) != file_count ||
        fwrite(extents, 12, extent_count, out) != extent_count ||
        fwrite(paths, 1, path_bytes, out) != path_bytes || fclose(out) != 0) {
        perror(path);
        return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint32_t flags = 0;
    int i;

    if (argc < 2) {
        fprintf(stderr, "usage: %s OUT [--any-inode] [--below DIR] FILE:FIRST+PAGES...\n", argv[0]);
        return 2;
    }
    for (i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--any-inode") == 0) {
            flags = 1;
        } else if (strcmp(argv[i], "--below") == 0 && i + 1 < argc) {
            i++;
            below = argv[i];
        } else {
            enter_extent(argv[i]);
        }
    }
    return write_pack(argv[1], flags);
}
