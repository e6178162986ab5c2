/* FreeRTOS, minimp3 and h264bsd include this header and use only what is in <stddef.h>. */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

#endif
