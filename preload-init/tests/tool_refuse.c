/*
 * Executes a command for which the kernel refuses system calls, for behaviour.sh: refuse
 * CALL=ERROR... -- COMMAND...
 *
 * So an old kernel is played (ENOSYS, 38), and a file system that takes readahead() and loads
 * nothing (error 0). Never refuses what was not named.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"readahead", SYS_readahead}, {"statx", SYS_statx},     {"openat2", SYS_openat2},
    {"mincore", SYS_mincore},     {"ppoll", SYS_ppoll},     {"sysinfo", SYS_sysinfo},
    {"fadvise64", SYS_fadvise64}, {"pread64", SYS_pread64},
};

static struct sock_filter filter[64];
static unsigned short length;

static void add(struct sock_filter instruction)
{
    filter[length++] = instruction;
}

static int refuse(const char *text)
{
    size_t i;

    for (i = 0; i < sizeof calls / sizeof *calls; i++) {
        size_t name = strlen(calls[i].name);

        if (strncmp(text, calls[i].name, name) == 0 && text[name] == '=') {
            unsigned error = (unsigned)strtoul(text + name + 1, NULL, 10);

            add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1));
            add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                             SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)));
            return 0;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct sock_fprog program = {0, filter};
    int i;

    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (i = 1; i < argc && strcmp(argv[i], "--") != 0 && i < 16; i++) {
        if (refuse(argv[i]) != 0) {
            fprintf(stderr, "refuse: cannot refuse %s\n", argv[i]);
            return 2;
        }
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    program.len = length;
    if (i + 1 >= argc || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("refuse");
        return 2;
    }
    execv(argv[i + 1], argv + i + 1);
    perror(argv[i + 1]);
    return 127;
}
