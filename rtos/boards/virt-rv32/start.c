/*
 * Start-up of the virt-rv32 board, its interrupts, and the ways to end.
 *
 * Memory is one file of the host: slots from its start, then the link (board.toml says the same),
 * then the image, from 17 MiB on. One hart, machine mode only.
 */
#include <stddef.h>
#include <stdint.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "hythe_rt.h"
#include "semihosting.h"
#include "uart.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define SHARED 0x80000000u
#define REGION_BYTES 16449536u
#define LINK_BYTES (512u << 10)

/* The interrupt controller (RISC-V PLIC 1.0.0): that of the hart's machine mode is context 0. */
#define PLIC 0x0c000000u
#define PLIC_PRIORITIES (PLIC + 0x0)
#define PLIC_ENABLE (PLIC + 0x2000)
#define PLIC_THRESHOLD (PLIC + 0x200000)
#define PLIC_CLAIM (PLIC + 0x200004)
#define UART_INTERRUPT 10u

/* The cause of a trap: an interrupt from outside (RISC-V Privileged Architecture, table 3.6). */
#define CAUSE_EXTERNAL 0x8000000bu

/* QEMU's device that ends it. */
#define TEST_DEVICE 0x00100000u
#define TEST_PASS 0x5555u
#define TEST_FAIL 0x13333u

void board_start(void);
void freertos_risc_v_application_interrupt_handler(uint32_t cause);
void freertos_risc_v_application_exception_handler(uint32_t cause);

static void end(uint32_t how)
{
    WORD(TEST_DEVICE) = how;
    for (;;) {
    }
}

void board_end(void)
{
    end(TEST_PASS);
}

static void write_text(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    semihosting_write(text, length);
}

static void write_number(uint32_t number)
{
    static const char DIGITS[] = "0123456789abcdef";
    int shift;

    write_text("0x");
    for (shift = 28; shift >= 0; shift -= 4) {
        semihosting_write(&DIGITS[number >> shift & 15], 1);
    }
}

void board_fail(const char *file, int line)
{
    portDISABLE_INTERRUPTS();
    write_text("\ncore failed: ");
    write_text(file);
    write_text(":");
    write_number((uint32_t)line);
    write_text("\n");
    end(TEST_FAIL);
}

void board_write(const char *text, size_t bytes)
{
    semihosting_write(text, bytes);
}

void board_open_doorbell(void)
{
    WORD(PLIC_PRIORITIES + 4 * UART_INTERRUPT) = 1;
    WORD(PLIC_THRESHOLD) = 0;
    WORD(PLIC_ENABLE) = 1u << UART_INTERRUPT;
    uart_open_doorbell();
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

/* Called by the port with interrupts masked, on their own stack. */
void freertos_risc_v_application_interrupt_handler(uint32_t cause)
{
    BaseType_t switch_due = pdFALSE;
    uint32_t claimed;

    if (cause != CAUSE_EXTERNAL) {
        board_fail("interrupt", (int)cause);
    }
    claimed = WORD(PLIC_CLAIM);
    if (claimed == UART_INTERRUPT) {
        uart_doorbell_interrupt();
        switch_due = app_bell_from_isr();
    }
    WORD(PLIC_CLAIM) = claimed;
    portYIELD_FROM_ISR(switch_due);
}

void freertos_risc_v_application_exception_handler(uint32_t cause)
{
    board_fail("exception", (int)cause);
}

void board_start(void)
{
    static const struct board board = {
        .link = (volatile void *)(uintptr_t)(SHARED + REGION_BYTES),
        .link_bytes = LINK_BYTES,
        .region = (void *)(uintptr_t)SHARED,
        .region_bytes = REGION_BYTES,
        .sleep_looks = SLEEP_LOOKS_EMULATED,
    };

    app_start(&board);
    vTaskStartScheduler();
    board_fail("scheduler", 0);
}
