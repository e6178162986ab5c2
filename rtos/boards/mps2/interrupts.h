/*
 * The lines of the interrupt controller (NVIC, Arm DDI 0403, B3.4) that these boards use, and their
 * handlers' names.
 */
#ifndef INTERRUPTS_H
#define INTERRUPTS_H

#include <stdint.h>

enum {
    DOORBELL_IRQ = 2,
    ALARM_IRQ = 9,
    /* That of the dual timer, which nothing starts: raised by software only. */
    REQUEST_IRQ = 10,
    INTERRUPTS = 11
};

/* More urgent than the kernel's own, not too urgent for calling it (FreeRTOSConfig.h). */
#define DOORBELL_PRIORITY (6 << 5)
/* Nothing that FreeRTOS does holds these up: their handlers never call it. */
#define MEASURED_PRIORITY (2 << 5)

#define NVIC_ENABLE_0 (*(volatile uint32_t *)0xE000E100u)
#define NVIC_PEND_0 (*(volatile uint32_t *)0xE000E200u)
#define NVIC_PRIORITY ((volatile uint8_t *)0xE000E400u)

void Alarm_Handler(void);
void Request_Handler(void);

static inline void interrupt_enable(unsigned line, uint8_t priority)
{
    NVIC_PRIORITY[line] = priority;
    NVIC_ENABLE_0 = 1u << line;
}

/* Returns when the handler has. */
static inline void interrupt_pend(unsigned line)
{
    NVIC_PEND_0 = 1u << line;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

#endif
