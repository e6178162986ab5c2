/* The doorbell of the hosted board: a stream socket whose SIGIO plays the interrupt. Used by start.c. */
#ifndef DOORBELL_H
#define DOORBELL_H

/* Connects to the agent's socket. 0, or -1 with errno. */
int doorbell_connect(const char *path);

/* Lets rings interrupt from now on. Call when the main thread already blocks all signals, as the POSIX port makes it do
 * with the first task. 0, or -1 with errno. */
int doorbell_open(void);

#endif
