/*
 * Where devices are: on QEMU's `virt` machine (the memory map that its device tree tells), or in a guest that Xen starts on
 * it without help (Xen, public/arch-arm.h). The UART is the machine's in both: Xen hands it through.
 */
#ifndef MACHINE_H
#define MACHINE_H

#define UART 0x09000000u

#ifdef MACHINE_XEN_GUEST
#define GIC_DISTRIBUTOR 0x03001000u
#define GIC_REDISTRIBUTOR 0x03020000u
#else
#define GIC_DISTRIBUTOR 0x08000000u
#define GIC_REDISTRIBUTOR 0x080a0000u
#endif

#endif
