/*
 * The first instructions: entered in machine mode with interrupts masked, by QEMU's loader
 * (board.toml).
 */
    .section .head, "ax"
    .global _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, stack_top
    la t0, bss_start
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  la t0, freertos_risc_v_trap_handler
    csrw mtvec, t0
    call board_start
3:  j 3b
