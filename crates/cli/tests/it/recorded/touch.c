/*
 * Uses exactly the pages of a file that it is told: `touch FILE r PAGE COUNT m PAGE COUNT ...`, r
 * by reading, m through a mapping; o throws them out of memory, as the kernel does when it needs
 * room.
 *
 * Run by the tests of `hythe preload record`, which know what the recorder has to find. It never
 * uses another page of the file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE_BYTES = 4096,
    /* MADV_PAGEOUT, which older headers do not name. */
    PAGE_OUT = 21
};

static volatile char sink;

static int touch(int file, char *mapping, char how, long page)
{
    char byte;
    if (how == 'm') {
        sink = mapping[page * PAGE_BYTES + 17];
        return 0;
    }
    if (how == 'o') {
        /* Kernels before 5.4 cannot: then the page stays. */
        (void)madvise(mapping + page * PAGE_BYTES, PAGE_BYTES, PAGE_OUT);
        return 0;
    }
    return pread(file, &byte, 1, page * PAGE_BYTES + 17) == 1 ? 0 : 1;
}

int main(int count, char **arguments)
{
    struct stat status;
    if (count < 2) {
        return 2;
    }
    int file = open(arguments[1], O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0) {
        return 3;
    }
    char *mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED) {
        return 4;
    }
    for (int at = 2; at + 2 < count; at += 3) {
        long first = atol(arguments[at + 1]);
        long pages = atol(arguments[at + 2]);
        for (long page = first; page < first + pages; page++) {
            if (touch(file, mapping, arguments[at][0], page) != 0) {
                return 5;
            }
        }
    }
    return 0;
}
