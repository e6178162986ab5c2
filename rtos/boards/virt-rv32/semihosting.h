/*
 * The console of this board, whose only UART is the doorbell: text goes through the emulator or
 * debugger that runs it (RISC-V Semihosting 0.4, which is Arm IHI 0100 by other instructions).
 * Without one that serves it, a fault.
 */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>

/*
 * Writes text. From anywhere. The core stands still meanwhile: as long as nobody reads and the
 * host's pipe is full.
 */
void semihosting_write(const char *text, size_t bytes);

#endif
