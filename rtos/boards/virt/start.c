/* Start-up of the boards on QEMU's `virt` machine, their interrupts, and the ways to end. */
#include <stddef.h>
#include <stdint.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "gic.h"
#include "hythe_rt.h"
#include "its.h"
#include "ivshmem.h"
#include "machine.h"
#include "timer.h"

/*
 * Where the compiler may use vector registers in it, the port calls the handler by the name that
 * saves them.
 */
#ifdef __ARM_FP
#define HANDLER vApplicationFPUSafeIRQHandler
#else
#define HANDLER vApplicationIRQHandler
#endif

/* PSCI (Arm DEN 0022), by the conduit that QEMU and hypervisors offer to EL1. */
#define PSCI_SYSTEM_OFF 0x84000008u

void board_start(void);
void board_fault(uint64_t syndrome, uint64_t address);
void HANDLER(uint32_t acknowledged);

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

#ifdef MACHINE_ALONE

void board_ring(void)
{
    /* Nobody shares memory with this core. */
}

void board_open_doorbell(void)
{
}

#else

void board_ring(void)
{
    ivshmem_ring();
}

void board_open_doorbell(void)
{
    configASSERT(ivshmem_open() == 0);
}

#endif

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
void HANDLER(uint32_t acknowledged)
{
    unsigned ticks;

    switch (acknowledged) {
    case REQUEST_INTERRUPT:
        request_interrupt();
        break;
#ifndef MACHINE_ALONE
    case MESSAGE_INTERRUPT:
        portYIELD_FROM_ISR(app_bell_from_isr());
        break;
#endif
    case TIMER_INTERRUPT:
        for (ticks = timer_interrupt(); ticks > 0; ticks--) {
            /* Its handler expects them so, and leaves them enabled. */
            portDISABLE_INTERRUPTS();
            FreeRTOS_Tick_Handler();
        }
        break;
    default:
        break;
    }
}

void board_start(void)
{
#ifdef MACHINE_ALONE
    static const struct board board = {.link = NULL};
#else
    static const struct board board = {
        .link = (volatile void *)(uintptr_t)(SHARED + REGION_BYTES),
        .link_bytes = LINK_BYTES,
        .region = (void *)(uintptr_t)SHARED,
        .region_bytes = REGION_BYTES,
        .segments = (void *)(uintptr_t)(SHARED + REGION_BYTES + LINK_BYTES),
        .segments_bytes = SEGMENTS_BYTES,
        .sleep_looks = SLEEP_LOOKS_EMULATED,
    };
#endif

    gic_start();
    app_start(&board);
    vTaskStartScheduler();
    board_fail("scheduler", 0);
}
