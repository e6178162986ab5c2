#!/usr/bin/env bash
# Fetches what `hythe latency board --under xen-…` boots, into a directory of its own (the argument): Xen, a Linux kernel and busybox for
# arm64, as files `xen`, `linux` and `initramfs`; and has a Xen with what Debian leaves out built as `xen-built` (`scripts/xen-build.sh`).
#
# Called by `make test-latency`. Everything is a Debian package from this machine's own sources, unpacked and not installed, about 22 MB, and
# 5 MB of source. Linux's process 1 is `rtos/xen/init.sh`, what computes there `rtos/xen/hog.c`. Installs the compiler of device trees and
# what Xen's configuration is built with, where they are missing, as root, and otherwise says so.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
directory=$(mkdir -p "$1" && cd "$1" && pwd)
# shellcheck source=SCRIPTDIR/apt-root.sh
source scripts/apt-root.sh
# shellcheck source=SCRIPTDIR/packages.sh
source scripts/packages.sh
stamp=$directory/fetched
# Renewed when the fetching changes, not with every line of this script.
recipe=2
modules=(drivers/virtio/{virtio,virtio_ring,virtio_mmio} drivers/block/virtio_blk)
applets=(sh mount cat insmod dd sleep)

fail() {
    printf 'xen-tools: %s\n' "$*" >&2
    exit 1
}

fetch() {
    echo "xen-tools: fetching Xen and a Linux for it (about 22 MB)"
    rm -rf "${directory:?}"/{apt,packages,system,xen,xen.about,version,linux,busybox,modules}
    mkdir -p "$directory"/{packages,modules}
    apt_root "$directory" arm64 /dev/null
    local kernel module package log=$directory/apt/arm64/update.log
    export APT_CONFIG=$directory/apt/arm64/apt.conf
    kernel=$(apt-cache depends linux-image-cloud-arm64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    [[ $kernel ]] || fail "linux-image-cloud-arm64 is in no source of packages (see $log)"
    (cd "$directory/packages" && apt-get -qq download "$kernel" busybox-static xen-hypervisor-4.17-arm64) ||
        fail "the packages cannot be fetched: $kernel busybox-static xen-hypervisor-4.17-arm64 (see $log)"
    unset APT_CONFIG
    for package in "$directory"/packages/*.deb; do
        dpkg-deb -x "$package" "$directory/system"
    done
    cp "$directory/system/boot/xen-4.17-arm64" "$directory/xen"
    dpkg-deb -f "$directory"/packages/xen-hypervisor-*.deb Version >"$directory/version"
    echo "Debian's package xen-hypervisor-4.17-arm64 $(<"$directory/version")" >"$directory/xen.about"
    cp "$directory/system/boot/vmlinuz-${kernel#linux-image-}" "$directory/linux"
    cp "$directory/system/bin/busybox" "$directory/busybox"
    for module in "${modules[@]}"; do
        cp "$directory/system/lib/modules/${kernel#linux-image-}/kernel/$module.ko" "$directory/modules/"
    done
    rm -rf "${directory:?}"/{apt,packages,system}
    echo "$recipe" >"$stamp"
}

# Cheap, and made anew each time: init.sh may have changed.
pack() {
    local root applet
    root=$(mktemp -d)
    trap 'rm -rf "$root"' RETURN
    mkdir -p "$root"/{bin,dev,proc}
    cp -r "$directory/modules" "$root/modules"
    cp "$directory/busybox" "$root/bin/"
    for applet in "${applets[@]}"; do
        ln -s busybox "$root/bin/$applet"
    done
    cp rtos/xen/init.sh "$root/init"
    aarch64-linux-gnu-gcc -std=c99 -O2 -Wall -Wextra -Werror -ffreestanding -nostdlib -static -Wl,--build-id=none \
        -o "$root/bin/hog" rtos/xen/hog.c || fail "rtos/xen/hog.c cannot be built"
    # Instructions are counted: it shall be the same whenever it is packed.
    find "$root" -exec touch -hd @0 {} +
    (cd "$root" && find . | LC_ALL=C sort | cpio --quiet --reproducible -o -H newc) | gzip -n >"$directory/initramfs.new"
    mv "$directory/initramfs.new" "$directory/initramfs"
}

packages=(
    device-tree-compiler  # what Xen boots with is written as text
    bison                 # read Xen's configuration
    flex
    python3               # checks what Xen's build includes
    gcc-aarch64-linux-gnu # builds it
)

install_packages xen-tools "${packages[@]}"
[[ -f $stamp && $(<"$stamp") == "$recipe" ]] || fetch
pack
scripts/xen-build.sh "$directory" "$(<"$directory/version")"
