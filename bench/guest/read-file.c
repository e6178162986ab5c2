/*
 * The test program of the experiment: reads one regular file whole, and prints `BBB`.
 *
 *     read-file FILE [BYTES]
 *
 * Started by start.c, and by init.sh for the bound and for the raw flash (with BYTES, since a
 * device has no size to be read whole). Behind `BBB` come the bytes, the time by the board's own
 * clock, and how many pages of the file were in memory when the program began. Never writes to the
 * file.
 */
#include <fcntl.h>

#include "console.h"

static char buffer[65536];

int main(int count, char **words)
{
    long long bytes = 0;
    long long most = count > 2 ? atoll(words[2]) : -1;
    long long started;
    size_t resident = 0;
    int file;

    if (count < 2) {
        say("hythe failed: read-file FILE [BYTES]\n");
        return 2;
    }
    started = now_ns();
    file = open(words[1], O_RDONLY);
    if (file < 0) {
        give_up("open", words[1]);
    }
    if (most < 0) {
        resident = resident_pages(file, words[1]);
    }
    while (most < 0 || bytes < most) {
        ssize_t got = read(file, buffer, sizeof(buffer));

        if (got < 0) {
            give_up("read", words[1]);
        }
        if (got == 0) {
            break;
        }
        bytes += got;
    }
    started = now_ns() - started;
    say("BBB\n");
    say("hythe read %lld bytes in %lld ns, %zu pages were resident\n", bytes, started, resident);
    return 0;
}
