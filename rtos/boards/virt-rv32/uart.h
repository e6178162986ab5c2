/* The only UART (16550): the doorbell. The console goes through semihosting. Used by start.c. */
#ifndef UART_H
#define UART_H

/* Lets received bytes interrupt. */
void uart_open_doorbell(void);

/* The UART's interrupt: empties it, which clears it. */
void uart_doorbell_interrupt(void);

#endif
