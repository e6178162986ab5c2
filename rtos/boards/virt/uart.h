/*
 * The only UART (PL011, Arm DDI 0183): the pin while a program measures, the console before and
 * after.
 */
#ifndef UART_H
#define UART_H

/* Sends a byte. Waits while the transmitter is full: QEMU empties it at once. */
void uart_send(char byte);

#endif
