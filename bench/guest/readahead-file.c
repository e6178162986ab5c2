/*
 * The peer that everybody writes first: asks the kernel to read a file ahead, in steps that it does
 * not cap, and goes on.
 *
 *     readahead-file FILE COMMAND [ARGUMENTS]
 *
 * Process 1 of a boot of the case `readahead`; COMMAND takes its place. Never looks whether
 * anything was read.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "console.h"

/* The kernel cuts a longer one off (1280 KiB have been seen). */
enum {
    STEP_BYTES = 131072
};

int main(int count, char **words)
{
    struct stat status;
    int file;

    if (count < 3) {
        say("hythe failed: readahead-file FILE COMMAND\n");
        return 2;
    }
    file = open(words[1], O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0) {
        give_up("open", words[1]);
    }
    for (off_t at = 0; at < status.st_size; at += STEP_BYTES) {
        if (readahead(file, at, STEP_BYTES) != 0) {
            give_up("read ahead", words[1]);
        }
    }
    close(file);
    execv(words[2], words + 2);
    give_up("execute", words[2]);
}
