/* Finds the frames of layer III in a file, by their headers, as a demultiplexer does. */
#ifndef MP3_FRAMES_H
#define MP3_FRAMES_H

#include <stddef.h>
#include <stdint.h>

/* Where the frames begin: behind ID3v2 tags. */
size_t mp3_first(const uint8_t *bytes, size_t count);

/* Bytes of the frame whose header stands here; 0: no complete frame. */
size_t mp3_frame_bytes(const uint8_t *at, size_t count);

#endif
