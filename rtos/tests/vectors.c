/* Reading the golden vectors. Called by test_vectors.c. */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

const char *vectors_folder;

static int read_line(struct vectors *vectors, char *group, char *text)
{
    struct vector_line *line = &vectors->line[vectors->count];

    if (text[0] == '\n' || text[0] == '#') {
        return 1;
    }
    if (sscanf(text, "[%255[^]]]", group) == 1) {
        return 1;
    }
    if (vectors->count == VECTOR_LINES_MAX ||
        sscanf(text, "%255[^=] = %255[^\n]", line->key, line->value) != 2) {
        return 0;
    }
    line->key[strcspn(line->key, "=")] = '\0';
    if (strlen(line->key) > 0 && line->key[strlen(line->key) - 1] == ' ') {
        line->key[strlen(line->key) - 1] = '\0';
    }
    strcpy(line->group, group);
    vectors->count++;
    return 1;
}

int vectors_read(struct vectors *vectors, const char *file)
{
    char path[1024];
    char text[2 * VECTOR_TEXT_MAX];
    char group[VECTOR_TEXT_MAX] = "";
    FILE *stream;
    int good = 1;

    vectors->count = 0;
    snprintf(path, sizeof path, "%s/%s", vectors_folder, file);
    stream = fopen(path, "r");
    if (stream == NULL) {
        perror(path);
        return 0;
    }
    while (good && fgets(text, sizeof text, stream) != NULL) {
        good = read_line(vectors, group, text);
        if (!good) {
            printf("%s: no meaning in: %s", path, text);
        }
    }
    fclose(stream);
    return good && vectors->count > 0;
}

const char *vectors_text(const struct vectors *vectors, const char *group, const char *key)
{
    size_t i;

    for (i = 0; i < vectors->count; i++) {
        if (strcmp(vectors->line[i].group, group) == 0 && strcmp(vectors->line[i].key, key) == 0) {
            return vectors->line[i].value;
        }
    }
    return NULL;
}

uint32_t vectors_number(const struct vectors *vectors, const char *group, const char *key)
{
    const char *text = vectors_text(vectors, group, key);

    if (text == NULL) {
        printf("[%s] has no %s\n", group, key);
        CHECK(text != NULL);
        return 0;
    }
    return (uint32_t)strtoull(text, NULL, 0);
}

size_t vectors_bytes(const char *text, uint8_t *bytes, size_t room)
{
    size_t count = 0;
    unsigned value;

    while (count < room && sscanf(text + 2 * count, "%2x", &value) == 1) {
        bytes[count] = (uint8_t)value;
        count++;
        if (text[2 * count] == '\0') {
            break;
        }
    }
    return count;
}
