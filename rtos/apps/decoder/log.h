/* Lines on the board's console: a word and a number. From any task; never blocks. */
#ifndef LOG_H
#define LOG_H

#include <stdint.h>

/* Writes "decoder: WHAT NUMBER". WHAT beyond 40 characters is cut. */
void log_number(const char *what, uint32_t number);

#endif
