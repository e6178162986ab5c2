#!/bin/sh
# Process 1 of the Linux that runs beside a core under Xen (`scripts/xen-tools.sh` puts it into an initramfs): loads the machine as the
# word `load=` of the kernel's command line says, for ever. Xen has no console, so nobody reads what this says.
mount -t proc proc /proc
mount -t devtmpfs devices /dev
case " $(cat /proc/cmdline) " in
*" load=hog "*)
    while :; do :; done
    ;;
*" load=hog-in-turns "*)
    exec /bin/hog
    ;;
*" load=io "*)
    for module in virtio virtio_ring virtio_mmio virtio_blk; do
        insmod "/modules/$module.ko"
    done
    # Past the page cache: each block is an interrupt of the disk.
    while :; do
        dd if=/dev/vda of=/dev/null bs=4096 iflag=direct
    done
    ;;
esac
while :; do
    sleep 1000
done
