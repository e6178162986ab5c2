/* An older name of <string.h>, which h264bsd uses. */
#ifndef MEMORY_H
#define MEMORY_H

#include <string.h>

#endif
