/* The three UARTs: 0 is the console, 1 the doorbell, 2 the pin. Used by start.c and measure.c. */
#ifndef UART_H
#define UART_H

/* Switches both on; the doorbell does not interrupt yet. */
void uart_start(void);

/* Lets the doorbell interrupt. */
void uart_open_doorbell(void);

/* The doorbell's interrupt: clears it at the device and empties it. */
void uart_doorbell_interrupt(void);

/* Switches the pin on. */
void uart_start_pin(void);

/*
 * Sends a byte over the pin's UART, or drops it: an emulator that nobody told to watch it takes it
 * at once.
 */
void uart_pin(char edge);

#endif
