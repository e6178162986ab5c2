/*
 * The only UART (PL011, Arm DDI 0183). With Linux beside the core it is the doorbell; alone, the pin while a program measures
 * and the console before and after.
 */
#ifndef UART_H
#define UART_H

/* Sends a byte. Waits while the transmitter is full: QEMU empties it at once. */
void uart_send(char byte);

/* Lets received bytes interrupt. */
void uart_open_doorbell(void);

/* The UART's interrupt: clears it at the device and empties it. */
void uart_doorbell_interrupt(void);

#endif
