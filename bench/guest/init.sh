#!/bin/sh
# The first program of the emulated board: makes flash out of a disk, mounts it, empties the page cache, and begins one run.
#
# Process 1 of the initramfs that scripts/guest.sh packs. What to do stands on the kernel's command line, which arrives as
# environment; `bench/src/preload/board.rs` writes it:
#   fs        ubifs, jffs2 (the disk's bytes are written into a simulated NAND first) or ext4 (the disk itself)
#   way       plain, preload, budget, readahead, vmtouch: one run from `AAA` to `BBB`, the hog beside it
#             bound: the same read on the idle board, `reads` times from a cold cache, and the raw flash
#             record: `hythe`, which is the second disk, records `program`; the pack goes onto the third disk
#   file      what is read, below /flash; everything else goes on to start and preload-init as it is
# Says `hythe failed: WHY` and ends the machine if a step fails. Never writes to the first disk.

# shellcheck disable=SC2154 # The kernel sets them.
export PATH=/bin

say() {
    echo "hythe $*"
}

fail() {
    say "failed: $*"
    poweroff -f
    # It takes a moment; nothing may happen meanwhile.
    sleep 60
}

load() {
    for module; do
        insmod "/modules/$module.ko" || fail "load $module.ko"
    done
}

# The delays of programming and erasing are none, since writing the image is no part of any run.
simulate_nand() {
    load mtd bch nandcore nand
    insmod /modules/nandsim.ko first_id_byte=0x20 second_id_byte=0xa2 third_id_byte=0x00 fourth_id_byte=0x15 do_delays=1 \
        access_delay="$access_delay" input_cycle="$input_cycle" output_cycle=0 programm_delay=0 erase_delay=0 \
        parts="$blocks" || fail "load nandsim.ko"
    dd if=/dev/vda of=/dev/mtd0 bs=128k 2>/dev/null || fail "write the image into the flash"
}

mount_ubifs() {
    simulate_nand
    # Its compressors first: it asks for them when it is loaded.
    load crc16 zstd_compress zstd
    insmod /modules/ubi.ko mtd=0 || fail "attach UBI"
    load ubifs
    mount -r -t ubifs ubi0:flash /flash || fail "mount UBIFS"
}

# Read-only, so that no collector of garbage runs beside the test.
mount_jffs2() {
    simulate_nand
    load jffs2
    mount -r -t jffs2 mtd0 /flash || fail "mount JFFS2"
}

mount_ext4() {
    load crc16 crc32c_generic mbcache jbd2 ext4
    mount -r -t ext4 /dev/vda /flash || fail "mount ext4"
}

empty_cache() {
    sync
    echo 3 >/proc/sys/vm/drop_caches || fail "drop the caches"
}

read_on_idle_board() {
    left=$reads
    while [ "$left" -gt 0 ]; do
        empty_cache
        echo AAA
        read-file "$file"
        left=$((left - 1))
    done
    if [ -c /dev/mtd0 ]; then
        say "raw flash:"
        read-file /dev/mtd0 4194304
    fi
    say "done"
    poweroff -f
}

record_program() {
    dd if=/dev/vdb of=/tmp/hythe-preload bs=1M 2>/dev/null || fail "take the recorder from its disk"
    chmod 755 /tmp/hythe-preload
    /tmp/hythe-preload record --any-inode --no-copies --output /tmp/pack -- chroot "$below" "$program" "$file" >/dev/null ||
        fail "record $program"
    dd if=/tmp/pack of=/dev/vdc bs=1M 2>/dev/null || fail "put the pack onto its disk"
    sync
    say "done"
    poweroff -f
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
load virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk
# A card takes requests one by one, and none of them whole: the emulator lets a large one pass before it reckons what it cost.
echo 128 >/sys/block/vda/queue/max_sectors_kb || fail "limit the disk's requests"
case $fs in
ubifs | jffs2 | ext4) "mount_$fs" ;;
*) fail "no such file system: fs=$fs" ;;
esac
if [ "$way" = bound ]; then
    read_on_idle_board
fi
if [ "$way" = record ]; then
    record_program
fi
empty_cache
# start.c tells it again when the run is over.
say "disk busy $(awk '{ print $10 }' /sys/block/vda/stat) ms"
say "kernel $(uname -r), $(awk '/MemAvailable/ { print $2 }' /proc/meminfo) KiB available"
case $way in
plain)
    echo AAA
    exec start
    ;;
preload | budget)
    echo AAA
    exec preload-init
    ;;
readahead)
    echo AAA
    exec readahead-file "$file" /bin/start
    ;;
vmtouch)
    echo AAA
    vmtouch -q -t "$file"
    exec start
    ;;
*) fail "no such way: way=$way" ;;
esac
