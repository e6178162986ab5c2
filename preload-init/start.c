/*
 * Where the kernel enters: takes the stack apart, runs the program, ends the process.
 *
 * Called by nobody but the kernel. Never returns: there is nothing to return to.
 */
#include <stddef.h>

#include "machine/machine.h"
#include "main.h"
#include "system.h"

enum {
    /* Entries of the auxiliary vector, from linux/auxvec.h. */
    AUXILIARY_END = 0,
    AUXILIARY_PAGE_BYTES = 6,
    AUXILIARY_OWN_PATH = 31
};

void hythe_preload_begin(unsigned long *stack);

#if !defined(MACHINE_START_MODE)
#define MACHINE_START_MODE ""
#endif

__asm__(".text\n"
        ".globl _start\n" MACHINE_START_MODE ".type _start, %function\n"
        "_start:\n" MACHINE_START ".section .note.GNU-stack, \"\", %progbits\n"
        ".text\n");

/*
 * The stack is: number of arguments, the arguments, NULL, the environment, NULL, pairs of key and
 * value.
 */
void hythe_preload_begin(unsigned long *stack)
{
    struct main_given given = {NULL, NULL, NULL, 0};
    const unsigned long *pair;
    char **end;

    given.arguments = (char **)(void *)(stack + 1);
    given.environment = given.arguments + stack[0] + 1;
    for (end = given.environment; *end != NULL; end++) {
    }
    for (pair = (const unsigned long *)(const void *)(end + 1); pair[0] != AUXILIARY_END;
         pair += 2) {
        if (pair[0] == AUXILIARY_PAGE_BYTES) {
            given.page_bytes = pair[1];
        } else if (pair[0] == AUXILIARY_OWN_PATH) {
            given.own_path = (const char *)pair[1];
        }
    }
    system_exit(main_run(&given));
}
