/* Lines on the console, put together on the stack and written in one piece. Never waits. */
#include "log.h"

#include <stddef.h>

#include "board.h"

enum {
    WHAT_MAX = 40,
    DIGITS_MAX = 10,
    LOG_BYTES_MAX = 9 + WHAT_MAX + 1 + DIGITS_MAX + 1
};

static size_t append(char *line, size_t at, const char *text, size_t limit)
{
    size_t i;

    for (i = 0; i < limit && text[i] != '\0'; i++) {
        line[at + i] = text[i];
    }
    return at + i;
}

void log_number(const char *what, uint32_t number)
{
    char line[LOG_BYTES_MAX];
    char digits[DIGITS_MAX];
    size_t count = 0;
    size_t at = append(line, 0, "decoder: ", 9);

    at = append(line, at, what, WHAT_MAX);
    line[at++] = ' ';
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    while (count > 0) {
        line[at++] = digits[--count];
    }
    line[at++] = '\n';
    board_write(line, at);
}
