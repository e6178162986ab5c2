/*
 * Where devices are: on QEMU's `virt` machine (the memory map that its device tree tells), or in a
 * guest that Xen starts on it without help (Xen, public/arch-arm.h). The UART is the machine's in
 * both: Xen hands it through.
 *
 * MACHINE_ALONE: no memory is shared with Linux, there is no doorbell, and the UART is the pin and
 * the console.
 */
#ifndef MACHINE_H
#define MACHINE_H

#define UART 0x09000000u

/*
 * The host's file, where there is one (board.toml): slots from its start, then the link, then
 * segments.
 */
#define SHARED 0x41000000u
#define SHARED_BYTES (24u << 20)
#define REGION_BYTES 16449536u
#define LINK_BYTES (512u << 10)
#define SEGMENTS_BYTES (SHARED_BYTES - REGION_BYTES - LINK_BYTES)

/* With highmem=off (board.toml). */
#define PCI_MEMORY 0x10000000u
#define PCI_CONFIGURATION 0x3f000000u
#define GIC_ITS 0x08080000u

#ifdef MACHINE_XEN_GUEST
#define GIC_DISTRIBUTOR 0x03001000u
#define GIC_REDISTRIBUTOR 0x03020000u
#else
#define GIC_DISTRIBUTOR 0x08000000u
#define GIC_REDISTRIBUTOR 0x080a0000u
#endif

#endif
