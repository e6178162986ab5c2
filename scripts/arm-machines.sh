#!/usr/bin/env bash
# The recorder of the storage hop on kernels of other machines: one of 32 bits, and one whose pages have 16 KiB.
#
# Called by `make arm`: arm-machines.sh DIRECTORY NAME EMULATOR... -- PROGRAM...: a directory for the machine and what it said; armhf or arm64;
# QEMU with the machine to emulate; and the programs that scripts/arm.sh built: tests, recorded (the example), touch, preload-init. Kernel and
# busybox are Debian 13's, fetched once (60 to 90 MB) and unpacked: no root is needed. scripts/arm-machine-init.sh is process 1 there. Times there
# are emulated, and nobody takes them.

set -euo pipefail
cd "$(dirname "$0")/.."
directory=$(mkdir -p "$1" && cd "$1" && pwd)
name=$2
shift 2
emulator=()
while [[ $1 != -- ]]; do
    emulator+=("$1")
    shift
done
shift
programs=("$@")
# shellcheck source=SCRIPTDIR/apt-root.sh
source scripts/apt-root.sh
# Debian's names: of the kernel, and where a cross compiler has libraries of the machine's.
declare -A kernels=([armhf]=linux-image-armmp [arm64]=linux-image-arm64-16k)
declare -A libraries=([armhf]=arm-linux-gnueabihf [arm64]=aarch64-linux-gnu)
# Of a disk in a file; in the order in which they are loaded.
modules=(lib/crc16 crypto/crc32c_generic fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4 drivers/block/loop)
applets=(sh mount insmod echo sleep poweroff uname mkdir cat grep sed sort awk cut dd)
stamp=$directory/fetched
# Renewed when the fetching changes, not with every line of this script.
recipe=1
# Ends a machine that hangs.
seconds_max=900

fail() {
    printf 'arm-machines: %s\n' "$*" >&2
    exit 1
}

fetch() {
    local kernel package module tree log=$directory/apt/$name/update.log
    echo "arm-machines: fetching a kernel for $name"
    rm -rf "${directory:?}"/{apt,packages,system,modules} "$stamp"
    mkdir -p "$directory"/{packages,modules}
    apt_root "$directory" "$name" /dev/null trixie
    export APT_CONFIG=$directory/apt/$name/apt.conf
    kernel=$(apt-cache depends "${kernels[$name]}" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | sed -n 1p)
    [[ $kernel ]] || fail "${kernels[$name]} is in no source of packages (see $log)"
    (cd "$directory/packages" && apt-get -qq download "$kernel" busybox-static) ||
        fail "the packages cannot be fetched: $kernel busybox-static (see $log)"
    unset APT_CONFIG
    for package in "$directory"/packages/*.deb; do
        dpkg-deb -x "$package" "$directory/system"
    done
    cp "$directory/system/boot/vmlinuz-${kernel#linux-image-}" "$directory/kernel"
    cp "$directory/system/usr/bin/busybox" "$directory/busybox"
    tree=$directory/system/usr/lib/modules/${kernel#linux-image-}/kernel
    for module in "${modules[@]}"; do
        xz -dc "$tree/$module.ko.xz" >"$directory/modules/${module##*/}.ko"
    done
    rm -rf "${directory:?}"/{apt,packages,system}
    echo "$recipe" >"$stamp"
}

# Into the machine's /bin, or among its tests: add ROOT PROGRAM.
add() {
    local arguments
    case ${2##*/} in
    recorded | touch | preload-init)
        cp "$2" "$1/bin/"
        return
        ;;
    # Of the system calls those that recording and reading ahead are made of.
    hythe_sys-*) arguments="residency file_pages fanotify read_ahead" ;;
    hythe_preload-*) arguments= ;;
    # Of the recorder. But for the vectors they count pages of 4 KiB, and say that they are left out elsewhere. One runs a copy of ls, and there
    # is none that can be copied.
    it-*)
        arguments="--skip program_that_ran_and_ended"
        [[ $name == armhf ]] || arguments="vectors::"
        ;;
    *) return ;;
    esac
    cp "$2" "$1/tests/"
    echo "/tests/${2##*/} $arguments" >>"$1/tests/list"
}

# The disk is a file in memory; a test opens many files at once.
pack() {
    local root=$1 applet program
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,disk,lib,modules,tests}
    cp scripts/arm-machine-init.sh "$root/init"
    chmod 755 "$root/init"
    cp "$directory/busybox" "$root/bin/"
    for applet in "${applets[@]}"; do
        ln -s busybox "$root/bin/$applet"
    done
    cp "$directory"/modules/*.ko "$root/modules/"
    printf '%s\n' "${modules[@]##*/}" >"$root/modules/order"
    cp "$HYTHE_ARM_LIBRARIES/${libraries[$name]}"/lib/*.so.* "$root/lib/"
    for program in "${programs[@]}"; do
        add "$root" "$program"
    done
    # Where tests that were built here put their files: the package's directory, and cargo's for temporary ones.
    printf '%s\n' "$PWD/crates/preload" "$PWD/crates/sys/src" "$HYTHE_ARM_TEMPORARY" >"$root/places"
    truncate --size=96M "$root/disk.ext4"
    PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -N 40000 "$root/disk.ext4"
    (cd "$root" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) | gzip -1 >"$root.cpio"
    rm -rf "$root"
}

main() {
    command -v "${emulator[0]}" >/dev/null || fail "${emulator[0]} is missing: apt-get install --no-install-recommends qemu-system-arm"
    [[ -f $stamp && $(<"$stamp") == "$recipe" ]] || fetch
    pack "$directory/root"
    timeout "$seconds_max" "${emulator[@]}" -nodefaults -no-user-config -display none -monitor none -nic none -serial stdio -no-reboot \
        -kernel "$directory/kernel" -initrd "$directory/root.cpio" -append "console=ttyAMA0 quiet panic=-1" </dev/null |
        tr -d '\r' >"$directory/said" || fail "the machine ended badly; what it said is in $directory/said"
    grep -E '^machine:|^test result|panicked|SKIPPED|skipped' "$directory/said" | sed 's/^/    /' || true
    grep -qx 'machine: all is well' "$directory/said" || fail "$name: something failed; what it said is in $directory/said"
    rm -f "$directory/root.cpio"
}

main
