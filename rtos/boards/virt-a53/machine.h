/* Where devices are on QEMU's `virt` machine (hw/arm/virt.c, the memory map that its device tree tells). */
#ifndef MACHINE_H
#define MACHINE_H

#define MACHINE_NAME "virt-a53"
#define UART 0x09000000u
#define GIC_DISTRIBUTOR 0x08000000u
#define GIC_REDISTRIBUTOR 0x080a0000u

#endif
