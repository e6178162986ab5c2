/*
 * Text out of a board that has no serial line for it: through the emulator or debugger that runs it (Arm IHI 0100, RISC-V
 * Semihosting 0.4). Used by boards whose only UART is the doorbell. Without an emulator that serves it, a fault.
 */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>

/* Writes text. From anywhere. The core stands still meanwhile: as long as nobody reads and the host's pipe is full. */
void semihosting_write(const char *text, size_t bytes);

#endif
