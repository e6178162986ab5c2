/* Reading the golden vectors: see vectors.h. Never skips a line that it does not understand. */
#include "vectors.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

const char *vectors_path;
const char *vectors_seeds;

static void read_pair(struct vector_group *group, char *text)
{
    char *equals = strstr(text, " = ");

    text[strcspn(text, "\n")] = '\0';
    if (equals == NULL || group->count == VECTOR_LINES_MAX ||
        (size_t)(equals - text) >= sizeof group->key[0] || strlen(equals + 3) >= VECTOR_TEXT_MAX) {
        printf("no meaning in, or no room for: %.60s\n", text);
        CHECK(equals == NULL);
        CHECK(0);
        return;
    }
    *equals = '\0';
    strcpy(group->key[group->count], text);
    strcpy(group->value[group->count], equals + 3);
    group->count++;
}

unsigned vectors_each(void (*each)(const struct vector_group *))
{
    static struct vector_group group;
    static char text[VECTOR_TEXT_MAX + 64];
    FILE *stream = fopen(vectors_path, "r");
    unsigned groups = 0;

    if (stream == NULL) {
        perror(vectors_path);
        CHECK(stream != NULL);
        return 0;
    }
    while (fgets(text, sizeof text, stream) != NULL) {
        if (text[0] == '[') {
            if (groups > 0) {
                each(&group);
            }
            groups++;
            group.count = 0;
            snprintf(group.name, sizeof group.name, "%.*s", (int)strcspn(text + 1, "]"), text + 1);
        } else if (text[0] != '\n' && text[0] != '#') {
            read_pair(&group, text);
        }
    }
    fclose(stream);
    if (groups > 0) {
        each(&group);
    }
    return groups;
}

static const char *find(const struct vector_group *group, const char *key)
{
    size_t i;

    for (i = 0; i < group->count; i++) {
        if (strcmp(group->key[i], key) == 0) {
            return group->value[i];
        }
    }
    return NULL;
}

const char *vector_text(const struct vector_group *group, const char *key)
{
    const char *value = find(group, key);

    if (value == NULL) {
        printf("[%s] has no %s\n", group->name, key);
        CHECK(value != NULL);
        return "";
    }
    return value;
}

long long vector_number(const struct vector_group *group, const char *key)
{
    return (long long)strtoll(vector_text(group, key), NULL, 10);
}

size_t vector_bytes(const struct vector_group *group, uint8_t *bytes, size_t room)
{
    const char *text = vector_text(group, "hex");
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
