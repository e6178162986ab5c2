/*
 * The doorbell of the hosted board: a stream socket whose SIGIO plays the interrupt. Used by
 * start.c.
 */
#ifndef DOORBELL_H
#define DOORBELL_H

/* Connects to the agent's socket. 0, or -1 with errno. */
int doorbell_connect(const char *path);

#endif
