/*
 * Executes a command that is told of less and less free memory, for behaviour.sh: poor TOTAL FREE
 * FALL -- COMMAND...
 *
 * In MiB: the memory of the machine, what is free at the first sysinfo(), by how much it falls at
 * each. The command is traced, and what the kernel wrote for it is changed. It dies with us. Never
 * touches the memory of the machine.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <linux/ptrace.h>
#include <unistd.h>

static int start(char **command)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        perror("poor: tracing");
        return 2;
    }
    execv(command[0], command);
    perror(command[0]);
    return 127;
}

static void poke(pid_t child, unsigned long address, unsigned long value)
{
    if (ptrace(PTRACE_POKEDATA, child, (void *)address, (void *)value) != 0) {
        perror("poor: writing");
    }
}

/* At the end of a sysinfo() whose struct is at this address. */
static void tell(pid_t child, unsigned long address, unsigned long total, unsigned long free)
{
    unsigned long rest;

    poke(child, address + offsetof(struct sysinfo, totalram), total << 20);
    poke(child, address + offsetof(struct sysinfo, freeram), free << 20);
    poke(child, address + offsetof(struct sysinfo, bufferram), 0);
    errno = 0;
    rest = (unsigned long)ptrace(PTRACE_PEEKDATA, child,
                                 (void *)(address + offsetof(struct sysinfo, mem_unit)), NULL);
    poke(child, address + offsetof(struct sysinfo, mem_unit), (rest & ~0xfffffffful) | 1);
}

static int trace(pid_t child, unsigned long total, unsigned long free, unsigned long fall)
{
    struct ptrace_syscall_info call;
    unsigned long address = 0;
    int status;

    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status) & ~0x80;

        if (signal == SIGTRAP && (WSTOPSIG(status) & 0x80) != 0 &&
            ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof call,
                   &call) > 0) {
            if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
                address = call.entry.nr == SYS_sysinfo ? (unsigned long)call.entry.args[0] : 0;
            } else if (address != 0) {
                tell(child, address, total, free);
                free -= free < fall ? free : fall;
            }
        }
        (void)ptrace(PTRACE_SETOPTIONS, child, NULL,
                     (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
        (void)ptrace(PTRACE_SYSCALL, child, NULL, (void *)(long)(signal == SIGTRAP ? 0 : signal));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

int main(int argc, char **argv)
{
    pid_t child;

    if (argc < 6 || strcmp(argv[4], "--") != 0) {
        fprintf(stderr, "usage: %s TOTAL FREE FALL -- COMMAND...\n", argv[0]);
        return 2;
    }
    child = fork();
    if (child < 0) {
        perror("poor: fork");
        return 2;
    }
    if (child == 0) {
        return start(argv + 5);
    }
    return trace(child, strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10),
                 strtoul(argv[3], NULL, 10));
}
