/*
 * A small agent for tests: makes the shared files, starts the board's child as board.toml says,
 * answers its doorbell. Everything it makes lies in one temporary folder and is gone after
 * agent_end().
 */
#ifndef AGENT_H
#define AGENT_H

#include <sys/types.h>

#include "../linux_side.h"
#include "board_file.h"

struct agent {
    struct board_file board;
    const char *image;
    char folder[TEXT_MAX];
    uint8_t *memory[FILES_MAX];
    uint8_t *region;
    uint8_t *link;
    int listener;
    /*
     * The connection; where the core is rung, and where it rings: the connection itself, or two
     * events (ivshmem.h).
     */
    int doorbell;
    int ring;
    int rung;
    int console;
    /* How often the core has rung, as far as waits saw it: several rings may be one. */
    uint32_t rings;
    pid_t child;
    struct linux_side side;
};

/* Reads the board, makes the files and the socket. 1, or 0 with a message. */
int agent_begin(struct agent *agent, const char *folder_of_images, const char *app);
void agent_end(struct agent *agent);

/* Starts the child and waits until it has connected. 1, or 0 with a message. */
int agent_start_core(struct agent *agent);
/* Kills the child with this signal and reaps it; returns its wait status. */
int agent_stop_core(struct agent *agent, int signal);
/* Waits for the child to end by itself, at most this long. 1 if it did. */
int agent_core_ended(struct agent *agent, int timeout_ms);

void agent_ring(struct agent *agent);
/* Sleeps until the core rings, at most this long. */
void agent_wait(struct agent *agent, int timeout_ms);

/* Copies what the core wrote to its console to our standard output. */
void agent_show_console(struct agent *agent);

uint64_t agent_now_ns(void);

#endif
