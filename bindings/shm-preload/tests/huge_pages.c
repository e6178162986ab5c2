/*
 * What shmget(2) says to segments on huge pages: a line for each size, with the error number or 0.
 * Started by programs.rs, with the library and without. Takes no arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/shm.h>

/* Bits 26 to 31 of the flags: the logarithm of a page's size. */
static const unsigned LOGARITHMS[] = {0, 21, 30, 63};

int main(void)
{
    const size_t bytes = 2 << 20;
    size_t i;

    for (i = 0; i < sizeof LOGARITHMS / sizeof *LOGARITHMS; i++) {
        int flags = (int)(SHM_HUGETLB | LOGARITHMS[i] << 26);
        int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | flags | 0600);
        printf("%d\n", id < 0 ? errno : 0);
        if (id >= 0 && shmctl(id, IPC_RMID, NULL) != 0) {
            return 1;
        }
    }
    return 0;
}
