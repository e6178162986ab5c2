/* Headers of MP3 frames, for tests. Called by decode.c. */
#include "mp3_frames.h"

#include <string.h>

size_t mp3_frame_bytes(const uint8_t *at, size_t count)
{
    /* ISO 11172-3 2.4.2.3 and ISO 13818-3 2.4.2.3, layer III. */
    static const unsigned KBIT_1[16] = {0,   32,  40,  48,  56,  64,  80,  96,
                                        112, 128, 160, 192, 224, 256, 320, 0};
    static const unsigned KBIT_2[16] = {0,  8,  16, 24,  32,  40,  48,  56,
                                        64, 80, 96, 112, 128, 144, 160, 0};
    static const unsigned HZ_1[4] = {44100, 48000, 32000, 0};
    unsigned version;
    unsigned kbit;
    unsigned hz;
    size_t bytes;

    if (count < 4 || at[0] != 0xFF || (at[1] & 0xE6) != 0xE2) {
        return 0;
    }
    version = at[1] >> 3 & 3; /* 3: MPEG-1, 2: MPEG-2, 0: MPEG-2.5 */
    kbit = version == 3 ? KBIT_1[at[2] >> 4] : KBIT_2[at[2] >> 4];
    hz = HZ_1[at[2] >> 2 & 3] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    if (version == 1 || kbit == 0 || hz == 0) {
        return 0;
    }
    bytes = (version == 3 ? 144000u : 72000u) * kbit / hz + (at[2] >> 1 & 1);
    return bytes <= count ? bytes : 0;
}

/*
 * The bytes of a frame without sound that describes the others (Xing, Info); 0: the first one has
 * sound.
 */
static size_t info_bytes(const uint8_t *at, size_t count)
{
    size_t bytes = mp3_frame_bytes(at, count);
    size_t side;

    if (bytes == 0) {
        return 0;
    }
    side =
        (at[1] & 8) != 0 ? ((at[3] & 0xC0) == 0xC0 ? 17 : 32) : ((at[3] & 0xC0) == 0xC0 ? 9 : 17);
    if (bytes < side + 8 ||
        (memcmp(at + 4 + side, "Xing", 4) != 0 && memcmp(at + 4 + side, "Info", 4) != 0)) {
        return 0;
    }
    return bytes;
}

size_t mp3_first(const uint8_t *bytes, size_t count)
{
    size_t at = 0;

    while (at + 10 <= count && memcmp(bytes + at, "ID3", 3) == 0) {
        const uint8_t *tag = bytes + at;
        at += 10 + ((size_t)tag[6] << 21 | (size_t)tag[7] << 14 | (size_t)tag[8] << 7 | tag[9]);
        at += (tag[5] & 16) != 0 ? 10 : 0;
    }
    return at + info_bytes(bytes + at, count - at);
}
