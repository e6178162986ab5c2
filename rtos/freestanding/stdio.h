/* FreeRTOS includes this header and uses nothing of it. */
#ifndef STDIO_H
#define STDIO_H

#include <stddef.h>

#endif
