/* The one translation unit with minimp3's bodies. */
#define MINIMP3_IMPLEMENTATION
#include "mp3.h"
