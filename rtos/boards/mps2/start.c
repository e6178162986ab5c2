/*
 * Start-up of the MPS2 boards: vectors, memory, interrupts, and the way to die.
 *
 * The 16 MiB of PSRAM are the host's file: slots from its start, then the link, then segments
 * (board.toml says the same). QEMU runs with -no-reboot, so a reset ends it and the agent sees the
 * core die.
 */
#include <stddef.h>
#include <stdint.h>

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "hythe_rt.h"
#include "interrupts.h"
#include "uart.h"

#define PSRAM 0x21000000u
#define PSRAM_BYTES (16u << 20)
#define REGION_BYTES (10u << 20)
#define LINK_BYTES (512u << 10)
#define SEGMENTS_BYTES (PSRAM_BYTES - REGION_BYTES - LINK_BYTES)

/* Armv7-M system registers: Arm DDI 0403, B3. */
#define COPROCESSOR_ACCESS (*(volatile uint32_t *)0xE000ED88u)
#define APPLICATION_INTERRUPT_AND_RESET (*(volatile uint32_t *)0xE000ED0Cu)
#define RESET_REQUEST 0x05FA0004u
#define FULL_ACCESS_TO_FPU (0xFu << 20)

extern uint32_t data_source[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];

void Reset_Handler(void);
void Fault_Handler(void);
void SVC_Handler(void);
void PendSV_Handler(void);
void SysTick_Handler(void);

/* The board with restricted tasks has another one. */
__attribute__((weak)) void Fault_Handler(void)
{
    board_fail("fault", 0);
}

static void Doorbell_Handler(void)
{
    uart_doorbell_interrupt();
    portYIELD_FROM_ISR(app_bell_from_isr());
}

typedef void (*vector)(void);

/* Armv7-M's 16 exceptions, then the interrupts; those without a handler are never enabled. */
__attribute__((section(".vectors"), used)) static const vector vectors[16 + INTERRUPTS] = {
    [0] = (vector)stack_top,
    [1] = Reset_Handler,
    [2] = Fault_Handler,
    [3] = Fault_Handler,
    [4] = Fault_Handler,
    [5] = Fault_Handler,
    [6] = Fault_Handler,
    [11] = SVC_Handler,
    [12] = Fault_Handler,
    [14] = PendSV_Handler,
    [15] = SysTick_Handler,
    [16 + DOORBELL_IRQ] = Doorbell_Handler,
    [16 + ALARM_IRQ] = Alarm_Handler,
    [16 + REQUEST_IRQ] = Request_Handler,
};

void board_fail(const char *file, int line)
{
    static const char WHERE[] = "core failed: ";
    char digits[8];
    size_t length = 0;
    size_t i;

    taskDISABLE_INTERRUPTS();
    board_write(WHERE, sizeof WHERE - 1);
    while (file[length] != '\0') {
        length++;
    }
    board_write(file, length);
    for (i = sizeof digits; i > 1; i--) {
        digits[i - 1] = (char)('0' + line % 10);
        line /= 10;
    }
    digits[0] = ':';
    board_write(digits, sizeof digits);
    board_write("\n", 1);
    board_end();
}

void board_end(void)
{
    APPLICATION_INTERRUPT_AND_RESET = RESET_REQUEST;
    for (;;) {
    }
}

void vApplicationStackOverflowHook(TaskHandle_t task, char *name)
{
    (void)task;
    board_fail(name, 0);
}

void vApplicationIdleHook(void)
{
    /*
     * An interrupt that makes a task ready has switched to it before this task goes on, so nothing
     * waits here.
     */
    __asm volatile("wfi");
}

void board_open_doorbell(void)
{
    uart_open_doorbell();
    interrupt_enable(DOORBELL_IRQ, DOORBELL_PRIORITY);
}

/* Runs with registers only until memory is ready. */
void Reset_Handler(void)
{
    static const struct board board = {
        .link = (volatile void *)(PSRAM + REGION_BYTES),
        .link_bytes = LINK_BYTES,
        .region = (void *)PSRAM,
        .region_bytes = REGION_BYTES,
        .segments = (void *)(PSRAM + REGION_BYTES + LINK_BYTES),
        .segments_bytes = SEGMENTS_BYTES,
        .sleep_looks = SLEEP_LOOKS_EMULATED,
    };
    const uint32_t *from = data_source;
    uint32_t *to;

#ifdef __ARM_FP
    COPROCESSOR_ACCESS |= FULL_ACCESS_TO_FPU;
    __asm volatile("dsb\n\tisb");
#endif
    for (to = data_start; to < data_end; to++) {
        *to = *from;
        from++;
    }
    for (to = bss_start; to < bss_end; to++) {
        *to = 0;
    }
    uart_start();
    app_start(&board);
    vTaskStartScheduler();
    board_fail("scheduler", 0);
}
