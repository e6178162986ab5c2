/* Start-up of the virt-a53 board, its interrupts, and the ways to end. */
#include <stddef.h>
#include <stdint.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "gic.h"
#include "timer.h"

/* PSCI (Arm DEN 0022), by the conduit that QEMU and hypervisors offer to EL1. */
#define PSCI_SYSTEM_OFF 0x84000008u

void board_start(void);
void board_fault(uint64_t syndrome, uint64_t address);
void vApplicationIRQHandler(uint32_t acknowledged);

void board_end(void)
{
    register uint64_t function __asm("x0") = PSCI_SYSTEM_OFF;

    __asm volatile("hvc #0" : "+r"(function)::"x1", "x2", "x3", "memory");
    for (;;) {
    }
}

static void say(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    board_write(text, length);
}

static void say_number(uint64_t number)
{
    static const char DIGITS[] = "0123456789abcdef";
    int shift;

    say("0x");
    for (shift = 60; shift >= 0; shift -= 4) {
        board_write(&DIGITS[number >> shift & 15], 1);
    }
}

void board_fail(const char *file, int line)
{
    portDISABLE_INTERRUPTS();
    say("\ncore failed: ");
    say(file);
    say(":");
    say_number((uint64_t)line);
    say("\n");
    board_end();
}

void board_fault(uint64_t syndrome, uint64_t address)
{
    say("\ncore failed: exception ");
    say_number(syndrome);
    say(" at ");
    say_number(address);
    say("\n");
    board_end();
}

void board_ring(void)
{
    /* Nobody shares memory with this core. */
}

void board_open_doorbell(void)
{
}

void vApplicationStackOverflowHook(TaskHandle_t task, char *name)
{
    (void)task;
    board_fail(name, 0);
}

void vApplicationIdleHook(void)
{
    __asm volatile("wfi");
}

/* Called by the port with interrupts masked; the interrupt's end is signalled when this returns. */
void vApplicationIRQHandler(uint32_t acknowledged)
{
    switch (acknowledged) {
    case REQUEST_INTERRUPT:
        request_interrupt();
        break;
    case TIMER_INTERRUPT:
        if (timer_interrupt()) {
            FreeRTOS_Tick_Handler();
        }
        break;
    default:
        break;
    }
}

void board_start(void)
{
    static const struct board board = {.link = NULL};

    gic_start();
    app_start(&board);
    vTaskStartScheduler();
    board_fail("scheduler", 0);
}
