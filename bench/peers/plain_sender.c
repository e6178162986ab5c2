/*
 * The plain way to play a transport stream over RTP: one sendto() for each packet and destination,
 * at the instant that the stream's constant rate gives it.
 *
 * The peer "plain" of `hythe bench media`, which compiles and starts it. It reads the file packet
 * by packet and keeps nothing. Never retries, never catches up faster than its loop goes.
 *
 * Usage: plain_sender FILE BITS_PER_SECOND HOST FIRST_PORT DESTINATIONS
 * Destinations listen on every second port from the first one on.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
    HEADER_BYTES = 12,
    PAYLOAD_BYTES = 7 * 188,
    PAYLOAD_TYPE = 33
};

static void put32(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)(value >> 24);
    to[1] = (unsigned char)(value >> 16);
    to[2] = (unsigned char)(value >> 8);
    to[3] = (unsigned char)value;
}

static void write_header(unsigned char *packet, uint32_t number, uint64_t due_ns)
{
    packet[0] = 0x80;
    packet[1] = PAYLOAD_TYPE;
    packet[2] = (unsigned char)(number >> 8);
    packet[3] = (unsigned char)number;
    put32(packet + 4, (uint32_t)(due_ns * 9 / 100000));
    put32(packet + 8, 0x706c6169);
}

static void sleep_until(const struct timespec *start, uint64_t due_ns)
{
    uint64_t ns = (uint64_t)start->tv_nsec + due_ns;
    struct timespec due = {
        .tv_sec = start->tv_sec + (time_t)(ns / 1000000000),
        .tv_nsec = (long)(ns % 1000000000),
    };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        ;
}

static int play(FILE *file, uint64_t rate, struct sockaddr_in *to, size_t count)
{
    unsigned char packet[HEADER_BYTES + PAYLOAD_BYTES];
    struct timespec start;
    int wire = socket(AF_INET, SOCK_DGRAM, 0);

    if (wire < 0 || clock_gettime(CLOCK_MONOTONIC, &start) != 0)
        return -1;
    for (uint32_t number = 0;; number++) {
        uint64_t due_ns = (uint64_t)number * PAYLOAD_BYTES * 8 * 1000000000 / rate;

        if (fread(packet + HEADER_BYTES, PAYLOAD_BYTES, 1, file) != 1)
            return ferror(file) ? -1 : 0;
        write_header(packet, number, due_ns);
        sleep_until(&start, due_ns);
        for (size_t place = 0; place < count; place++)
            if (sendto(wire, packet, sizeof(packet), 0, (struct sockaddr *)&to[place],
                       sizeof(to[place])) < 0 &&
                errno != ECONNREFUSED)
                return -1;
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s FILE BITS_PER_SECOND HOST FIRST_PORT DESTINATIONS\n", argv[0]);
        return 2;
    }
    FILE *file = fopen(argv[1], "rb");
    uint64_t rate = strtoull(argv[2], NULL, 10);
    long port = strtol(argv[4], NULL, 10), count = strtol(argv[5], NULL, 10);

    if (file == NULL || rate == 0 || count < 1 || port < 1 || port + 2 * (count - 1) > 65535) {
        fprintf(stderr, "%s: not a file, a rate, a port or a number\n", argv[0]);
        return 2;
    }
    struct sockaddr_in *to = calloc((size_t)count, sizeof(*to));

    if (to == NULL)
        return 1;
    for (long place = 0; place < count; place++) {
        to[place].sin_family = AF_INET;
        to[place].sin_port = htons((uint16_t)(port + 2 * place));
        if (inet_pton(AF_INET, argv[3], &to[place].sin_addr) != 1) {
            fprintf(stderr, "%s: %s is no address\n", argv[0], argv[3]);
            return 2;
        }
    }
    if (play(file, rate, to, (size_t)count) != 0) {
        perror("plain_sender");
        return 1;
    }
    return 0;
}
