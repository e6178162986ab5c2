/*
 * Firmware of its own: what arrives on `words` goes back on `shouts`, in capitals. Here the core is
 * a process of Linux, so that it runs anywhere; on a chip only `open_core()` is another one: the
 * memory is at fixed addresses, the doorbell an interrupt, and the port `bare` or `freertos`.
 *
 * usage: firmware.elf REGION LINK DOORBELL, as board.toml says. Ends with its agent.
 */
#define _GNU_SOURCE

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "hythe_posix.h"
#include "hythe_result_text.h"
#include "hythe_rt.h"

#define LONGEST_WAIT_MS 1000u

enum {
    WORDS,
    SHOUTS
};

static const struct hythe_endpoint_config ENDPOINTS[] = {
    {.name = "words", .direction = HYTHE_TO_CORE, .max_bytes = 3840},
    {.name = "shouts", .direction = HYTHE_FROM_CORE, .max_bytes = 3840},
};

static void *map(const char *path, size_t *bytes)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;
    void *memory;

    if (file < 0 || fstat(file, &about) != 0) {
        return MAP_FAILED;
    }
    *bytes = (size_t)about.st_size;
    memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    return memory;
}

/* A descriptor on which a byte is a ring, either way; negative if there is none. */
static int connect_doorbell(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int doorbell = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (doorbell < 0 || strlen(path) >= sizeof address.sun_path) {
        return -1;
    }
    strcpy(address.sun_path, path);
    if (connect(doorbell, (const struct sockaddr *)&address, sizeof address) != 0) {
        return -1;
    }
    return doorbell;
}

static int open_core(char **paths, struct hythe_posix *posix, struct hythe_port *port,
                     struct hythe_link_config *config)
{
    int doorbell = connect_doorbell(paths[2]);

    config->region = map(paths[0], &config->region_bytes);
    config->link = map(paths[1], &config->link_bytes);
    config->port = port;
    if (config->region == MAP_FAILED || config->link == MAP_FAILED || doorbell < 0 ||
        hythe_posix_start(posix, doorbell, port) != 0) {
        return -1;
    }
    return doorbell;
}

/* What was received goes back in capitals, if anybody listens; both buffers are given back. */
static void shout(struct hythe_endpoint *shouts, struct hythe_buffer *word)
{
    struct hythe_buffer reply;
    uint32_t i;

    if (hythe_lease(shouts, &reply, LONGEST_WAIT_MS) == HYTHE_OK) {
        uint32_t length = word->length < reply.length ? word->length : reply.length;

        for (i = 0; i < length; i++) {
            reply.data[i] = (uint8_t)toupper(word->data[i]);
        }
        if (hythe_publish(&reply, length, LONGEST_WAIT_MS) < 0) {
            (void)hythe_release(&reply);
        }
    }
    (void)hythe_release(word);
}

int main(int argc, char **argv)
{
    static struct hythe_link link;
    struct hythe_posix posix;
    struct hythe_port port;
    struct hythe_link_config config = {
        .name = "firmware",
        .endpoints = ENDPOINTS,
        .endpoint_count = sizeof ENDPOINTS / sizeof ENDPOINTS[0],
    };
    int doorbell;
    int result;
    char byte;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    doorbell = argc == 4 ? open_core(argv + 1, &posix, &port, &config) : -1;
    if (doorbell < 0) {
        fprintf(stderr, "usage: %s REGION LINK DOORBELL, as its agent starts it\n", argv[0]);
        return 1;
    }
    result = hythe_link_start(&link, &config);
    if (result != HYTHE_OK) {
        fprintf(stderr, "firmware: hythe_link_start: %s\n", hythe_result_text(result));
        return 1;
    }
    puts("firmware: ready");
    (void)fflush(stdout);
    /* A closed doorbell: nobody is left to work for. */
    while (recv(doorbell, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) {
        struct hythe_buffer word;

        if (hythe_receive(hythe_link_endpoint(&link, WORDS), &word, LONGEST_WAIT_MS) == HYTHE_OK) {
            shout(hythe_link_endpoint(&link, SHOUTS), &word);
        }
    }
    return 0;
}
