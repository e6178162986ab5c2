/*
 * The first instructions: entered at EL1 with the MMU off, by QEMU or by a hypervisor that boots Linux images.
 *
 * The header is that of an arm64 image (Linux, Documentation/arm64/booting.rst), so that Xen loads the same bytes.
 */
    .section .head, "ax"
    .global _start
_start:
    b start
    .word 0
    .quad 0x80000                   /* from the start of memory: memory.ld says the same */
    .quad image_end - _start
    .quad 0xa                       /* little endian, pages of 4 KiB */
    .quad 0, 0, 0
    .ascii "ARM\x64"
    .word 0

start:
    msr spsel, #1
    ldr x0, =stack_top
    mov sp, x0
    ldr x0, =bss_start
    ldr x1, =bss_end
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:
#ifdef __ARM_FP
    mov x0, #0x300000               /* CPACR_EL1.FPEN: floating point does not trap */
    msr cpacr_el1, x0
#endif
    ldr x0, =_freertos_vector_table
    msr vbar_el1, x0
    isb
    bl board_start
    b .

    .macro vector target
    .balign 128
    b \target
    .endm

    .text
    .balign 2048
    .global _freertos_vector_table
_freertos_vector_table:
    /* From EL1 on the stack of a task. */
    vector FreeRTOS_SWI_Handler
    vector FreeRTOS_IRQ_Handler
    vector fault
    vector fault
    /* From EL1 on the stack of interrupts. */
    vector fault
    vector FreeRTOS_IRQ_Handler
    vector fault
    vector fault
    /* Nothing runs at EL0. */
    .rept 8
    vector fault
    .endr

fault:
    mrs x0, esr_el1
    mrs x1, elr_el1
    b board_fault
