/*
 * Pages of files, for behaviour.sh: making a file, dropping it from the page cache, showing which
 * of its pages are there.
 *
 *   pages make FILE PAGES            a file of so many pages and one byte less, on the storage
 *   pages drop FILE...               out of the page cache; 3 if this file system does not do that
 *   pages expect FILE RANGES         0 once exactly these pages are resident ("0-1 12-36", "" for
 *                                    none), 1 with both lists if they are not after a while: what
 *                                    was only asked for takes its time
 *
 * Never writes to a file but in `make`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    LOOKS = 500,
    PAUSE_US = 10000
};

static int fail(const char *what)
{
    perror(what);
    return 2;
}

static int make(const char *path, unsigned long pages)
{
    unsigned char page[PAGE];
    unsigned long i;
    FILE *file = fopen(path, "wb");

    if (file == NULL) {
        return fail(path);
    }
    for (i = 0; i < pages; i++) {
        memset(page, (int)(i & 0xff), sizeof page);
        if (fwrite(page, 1, i + 1 < pages ? PAGE : PAGE - 1, file) == 0) {
            return fail(path);
        }
    }
    if (fflush(file) != 0 || fsync(fileno(file)) != 0 || fclose(file) != 0) {
        return fail(path);
    }
    return 0;
}

/* "0-1 12-36 " for the resident pages of a file, in memory of its own; NULL for failure. */
static char *resident(const char *path)
{
    int handle = open(path, O_RDONLY);
    struct stat stat;
    unsigned char *there;
    char *text;
    void *mapped;
    size_t pages;
    size_t i;
    size_t length = 0;

    if (handle < 0 || fstat(handle, &stat) != 0) {
        return NULL;
    }
    pages = ((size_t)stat.st_size + PAGE - 1) / PAGE;
    there = calloc(pages + 1, 1);
    text = calloc(pages + 1, 24);
    mapped = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, handle, 0);
    if (there == NULL || text == NULL || mapped == MAP_FAILED ||
        mincore(mapped, (size_t)stat.st_size, there) != 0) {
        return NULL;
    }
    for (i = 0; i < pages; i++) {
        if ((there[i] & 1) != 0 && (i == 0 || (there[i - 1] & 1) == 0)) {
            length += (size_t)sprintf(text + length, "%s%zu", length > 0 ? " " : "", i);
        }
        if ((there[i] & 1) != 0 && (there[i + 1] & 1) == 0) {
            length += (size_t)sprintf(text + length, "-%zu", i);
        }
    }
    munmap(mapped, (size_t)stat.st_size);
    free(there);
    close(handle);
    return text;
}

static int expect(const char *path, const char *expected)
{
    char *found = NULL;
    int looks;

    for (looks = 0; looks < LOOKS; looks++) {
        free(found);
        found = resident(path);
        if (found == NULL) {
            return fail(path);
        }
        if (strcmp(found, expected) == 0) {
            free(found);
            return 0;
        }
        /* More than expected does not become less. */
        if (strlen(expected) == 0) {
            break;
        }
        usleep(PAUSE_US);
    }
    printf("resident pages of %s are \"%s\", not \"%s\"\n", path, found, expected);
    free(found);
    return 1;
}

static int drop(const char *path)
{
    int handle = open(path, O_RDONLY);
    char *left;
    int result;

    if (handle < 0 || fsync(handle) != 0 || posix_fadvise(handle, 0, 0, POSIX_FADV_DONTNEED) != 0) {
        return fail(path);
    }
    close(handle);
    left = resident(path);
    if (left == NULL) {
        return fail(path);
    }
    result = left[0] == '\0' ? 0 : 3;
    free(left);
    return result;
}

int main(int argc, char **argv)
{
    int result = 0;
    int i;

    if (argc == 4 && strcmp(argv[1], "make") == 0) {
        return make(argv[2], strtoul(argv[3], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "expect") == 0) {
        return expect(argv[2], argv[3]);
    }
    if (argc >= 3 && strcmp(argv[1], "drop") == 0) {
        for (i = 2; i < argc && result == 0; i++) {
            result = drop(argv[i]);
        }
        return result;
    }
    fprintf(stderr, "usage: %s make FILE PAGES | drop FILE... | expect FILE RANGES\n", argv[0]);
    return 2;
}
