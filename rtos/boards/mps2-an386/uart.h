/* The two UARTs: 0 is the console, 1 the doorbell. Used by start.c. */
#ifndef UART_H
#define UART_H

/* Switches both on; the doorbell does not interrupt yet. */
void uart_start(void);

/* Lets the doorbell interrupt. */
void uart_open_doorbell(void);

/* The doorbell's interrupt: clears it at the device and empties it. */
void uart_doorbell_interrupt(void);

#endif
