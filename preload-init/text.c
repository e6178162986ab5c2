/* Text: see text.h. Never writes past a line's end. */
#include "text.h"

size_t text_length(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    return length;
}

int text_equal(const char *one, const char *other)
{
    const char *rest = text_after(one, other);

    return rest != NULL && *rest == '\0';
}

const char *text_after(const char *text, const char *start)
{
    while (*start != '\0') {
        if (*text != *start) {
            return NULL;
        }
        text++;
        start++;
    }
    return text;
}

uint64_t text_divide(uint64_t value, uint32_t divisor)
{
    uint64_t quotient = 0;
    uint64_t rest = 0;
    int bit;

    for (bit = 0; bit < 64; bit++) {
        rest = rest << 1 | value >> 63;
        value <<= 1;
        quotient <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1;
        }
    }
    return quotient;
}

int text_read_number(const char **text, uint64_t *number)
{
    const char *at = *text;
    uint64_t sum = 0;

    if (*at < '0' || *at > '9') {
        return -1;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        /* 1844674407370955161 * 10 + 5 is 2^64 - 1. */
        if (sum > 1844674407370955161u || (sum == 1844674407370955161u && digit > 5)) {
            return -1;
        }
        sum = sum * 10 + digit;
    }
    *number = sum;
    *text = at;
    return 0;
}

static void add_bytes(struct text_line *line, const char *bytes, size_t count)
{
    size_t i;

    for (i = 0; i < count && line->length < TEXT_LINE_BYTES; i++) {
        line->bytes[line->length] = bytes[i];
        line->length++;
    }
}

void text_add(struct text_line *line, const char *text)
{
    add_bytes(line, text, text_length(text));
}

void text_add_number(struct text_line *line, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        uint64_t tenth = text_divide(number, 10);

        at--;
        digits[at] = (char)('0' + (int)(number - tenth * 10));
        number = tenth;
    } while (number > 0);
    add_bytes(line, digits + at, sizeof digits - at);
}

static void add_escaped(struct text_line *line, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    char escape[4] = {'\\', 'x', '0', '0'};

    escape[2] = digits[byte >> 4];
    escape[3] = digits[byte & 15u];
    add_bytes(line, escape, sizeof escape);
}

void text_add_path(struct text_line *line, const char *path, size_t most, enum text_kind kind)
{
    size_t length = text_length(path);

    if (length > most) {
        text_add(line, "...");
        path += length - most;
    }
    for (; *path != '\0'; path++) {
        unsigned char byte = (unsigned char)*path;

        if (byte < ' ' || byte == 0x7f || byte == '\\' ||
            (kind == TEXT_FOR_PROGRAMS && byte == ' ')) {
            add_escaped(line, byte);
        } else {
            add_bytes(line, path, 1);
        }
    }
}

void text_add_count(struct text_line *line, uint64_t number, const char *thing)
{
    text_add_number(line, number);
    text_add(line, " ");
    text_add(line, thing);
    if (number != 1) {
        text_add(line, "s");
    }
}
