/*
 * What of an MP3 file is no audio: tags, and a first frame that only describes the others. Called
 * by main.c.
 */
#ifndef TAGS_H
#define TAGS_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    const uint8_t *at;
    size_t count;
};

/* Leaves out the first `count` bytes, or all. */
void skip_front(struct bytes *bytes, size_t count);

/* ID3v2 in front. */
void skip_id3v2(struct bytes *bytes);

/* ID3v1 with or without its extension behind, and APE in front of that. */
void skip_tail_tags(struct bytes *bytes);

/*
 * The first frame and what stands in front of it, if that is a Xing, Info or VBRI frame: it has no
 * sound.
 */
void skip_info_frame(struct bytes *bytes);

#endif
