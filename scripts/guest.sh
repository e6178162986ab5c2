#!/usr/bin/env bash
# Prepares the emulated board of the storage experiment in a directory of its own (the argument): kernel, modules, initramfs.
#
# Called by `scripts/setup.sh`; used by `hythe-bench preload` and its test. The kernel is Debian's stock one for amd64 (the
# cloud kernel has no flash), fetched together with busybox, vmtouch and curl from this machine's own sources of packages, and unpacked, not
# installed: it needs no root, and changes nothing outside the directory. The board's own programs are in
# `bench/guest`. What is there and up to date is left alone: a second run does nothing.

set -euo pipefail
cd "$(dirname "$0")/.."
directory=$(mkdir -p "$1" && cd "$1" && pwd)
# shellcheck source=SCRIPTDIR/apt-root.sh
source scripts/apt-root.sh
stamp=$directory/fetched
# Renewed when the fetching changes, not with every line of this script.
recipe=3
# The real program of the experiment: it loads some thirty shared libraries.
application=curl
programs=(start read-file readahead-file)

# By their place in the kernel's tree: init.sh loads them by name, in an order that their dependencies ask for.
modules=(
    drivers/virtio/{virtio_ring,virtio,virtio_pci_legacy_dev,virtio_pci_modern_dev,virtio_pci} drivers/block/virtio_blk
    drivers/mtd/mtd lib/bch drivers/mtd/nand/nandcore drivers/mtd/nand/raw/nand drivers/mtd/nand/raw/nandsim
    lib/crc16 lib/zstd/zstd_compress crypto/zstd drivers/mtd/ubi/ubi fs/ubifs/ubifs
    fs/jffs2/jffs2
    crypto/crc32c_generic fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4
)
# Of the same kernel, for scripts/network-guest.sh: what networks and packet schedulers are made of. Not in this board's initramfs.
network_modules=(drivers/net/veth net/sched/{sch_fq,sch_etf,sch_prio,sch_htb})

fail() {
    printf 'guest: %s\n' "$*" >&2
    exit 1
}

fetch() {
    command -v apt-get >/dev/null || fail "this is not Debian; the emulated board needs its packages"
    echo "guest: fetching the kernel of the emulated board and a program for it (about 90 MB)"
    rm -rf "${directory:?}"/{apt,packages,system,application,application.packages} "$stamp"
    mkdir -p "$directory"/{packages,system,application.packages}
    apt_root "$directory" amd64 /dev/null
    export APT_CONFIG=$directory/apt/amd64/apt.conf
    local kernel package
    kernel=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    [[ $kernel ]] || fail "linux-image-amd64 is in no source of packages (see $directory/apt/amd64/update.log)"
    # vmtouch is a peer, and libc6 is what it needs to run. ethtool is for networks: it takes offloads away from a device.
    (cd "$directory/packages" && apt-get -qq download "$kernel" busybox-static vmtouch libc6 ethtool) ||
        fail "the packages cannot be fetched: $kernel busybox-static vmtouch libc6 ethtool (see $directory/apt/amd64/update.log)"
    for package in "$directory"/packages/*.deb; do
        dpkg-deb -x "$package" "$directory/system"
    done
    # With everything that it depends on, since nothing counts as installed.
    apt-get -qq -y --no-install-recommends --download-only install "$application" >/dev/null ||
        fail "the packages of $application cannot be fetched (see $directory/apt/amd64/update.log)"
    for package in "$directory"/apt/amd64/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$directory/application.packages"
    done
    take_application "$directory/application.packages"
    unpack_kernel "$directory/system/boot/vmlinuz-${kernel#linux-image-}"
    local tree=$directory/system/lib/modules/${kernel#linux-image-}/kernel
    take_modules "$tree" modules "${modules[@]}"
    take_modules "$tree" network-modules "${network_modules[@]}"
    # Nine tenths of what was unpacked are modules of no use here.
    rm -rf "${directory:?}"/{apt,packages,application.packages} "$directory"/system/{lib/modules,boot}
    echo "$recipe $directory" >"$stamp"
}

number_at() {
    od --address-radix=n --skip-bytes="$2" --read-bytes="$3" --format="u$3" "$1" | tr -d ' '
}

# Unpacking itself costs the emulated CPU three seconds at each boot: it is done here, once. The header of a bzImage says where the
# payload is (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length). What is not xz stays as it is.
unpack_kernel() {
    local at length
    at=$((($(number_at "$1" $((0x1f1)) 1) + 1) * 512 + $(number_at "$1" $((0x248)) 4)))
    length=$(number_at "$1" $((0x24c)) 4)
    if ! dd if="$1" iflag=skip_bytes,count_bytes skip="$at" count="$length" bs=1M status=none |
        xz -dc --single-stream >"$directory/kernel" 2>/dev/null; then
        cp "$1" "$directory/kernel"
    fi
}

# take_modules TREE NAME MODULES...: into the directory of that name.
take_modules() {
    local tree=$1 to=$directory/$2 module
    rm -rf "$to"
    mkdir "$to"
    for module in "${@:3}"; do
        [[ -f $tree/$module.ko ]] || fail "$tree has no $module.ko"
        strip --strip-debug -o "$to/${module##*/}.ko" "$tree/$module.ko"
    done
}

# A root with the program and what its loader maps, and nothing else: take_application DIRECTORY
take_application() {
    local root=$directory/application libraries=lib/x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2 library
    mkdir -p "$root"/{lib64,etc,dev,proc} "$root/usr/bin" "$root/usr/$libraries"
    ln -s usr/lib "$root/lib"
    cp -p "$1/usr/bin/$application" "$root/usr/bin/"
    cp -pL "$1/$loader" "$root/$loader"
    while read -r library; do
        cp -pL "$library" "$root/usr/$libraries/${library##*/}"
    done < <("$1/$loader" --library-path "$1/$libraries:$1/usr/$libraries" --list "$1/usr/bin/$application" |
        sed -n 's/^.* => \([^ ]*\) .*$/\1/p')
    # Where the loader looks first, on a machine that is installed.
    PATH=$PATH:/usr/sbin:/sbin ldconfig -r "$root" || fail "ldconfig failed"
}

build_programs() {
    local compiler=gcc program
    [[ $(uname -m) == x86_64 ]] || compiler=x86_64-linux-gnu-gcc
    command -v "$compiler" >/dev/null || fail "$compiler is missing; the board's programs are built with it"
    mkdir -p "$directory/programs"
    for program in "${programs[@]}"; do
        "$compiler" -std=gnu11 -O2 -Wall -Wextra -Werror -static -o "$directory/programs/$program" "bench/guest/$program.c" ||
            fail "bench/guest/$program.c does not compile"
    done
}

# The root of the first programs, in memory: nothing of it is read from flash. Each file in it takes memory from the run.
pack_initramfs() {
    local root system=$directory/system applet
    root=$(mktemp -d "$directory/initramfs.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$root'" EXIT
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,flash,lib/x86_64-linux-gnu,lib64}
    cp bench/guest/init.sh "$root/init"
    chmod 755 "$root/init"
    cp -r "$directory/modules" "$root/"
    cp "$system/bin/busybox" "$root/bin/"
    for applet in sh mount insmod dd echo sleep poweroff sync uname awk chmod chroot; do
        ln -s busybox "$root/bin/$applet"
    done
    cp "${programs[@]/#/$directory/programs/}" "$root/bin/"
    strip "${programs[@]/#/$root/bin/}"
    cp "$directory/preload-init/preload-init" "$root/bin/"
    cp "$system/usr/bin/vmtouch" "$root/bin/"
    cp -L "$system/lib/x86_64-linux-gnu/libc.so.6" "$root/lib/x86_64-linux-gnu/"
    cp -L "$system/lib64/ld-linux-x86-64.so.2" "$root/lib64/"
    (cd "$root" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) >"$directory/initramfs.unfinished"
    mv "$directory/initramfs.unfinished" "$directory/initramfs"
}

# The product's own program for this, as it is shipped.
build_preload_init() {
    make --no-print-directory -C preload-init BUILD="$directory/preload-init" "$directory/preload-init/preload-init" >/dev/null ||
        fail "preload-init does not build"
}

is_current() {
    [[ -e $directory/initramfs ]] || return 1
    [[ -z $(find bench/guest preload-init scripts/guest.sh -type f -newer "$directory/initramfs" -print -quit) ]]
}

if [[ ! -e $stamp || $(<"$stamp") != "$recipe $directory" ]]; then
    fetch
    rm -f "$directory/initramfs"
fi
is_current && exit
echo "guest: building the programs of the emulated board"
build_preload_init
build_programs
pack_initramfs
