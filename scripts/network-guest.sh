#!/usr/bin/env bash
# Boots Debian's kernel in QEMU and runs tests there that need what this machine's kernel may lack: packet schedulers that heed departure
# times (fq, etf), and a device without checksums that refuses UDP segmentation.
#
# Called by `make test-media`: network-guest.sh BOARD WORK. BOARD is what scripts/guest.sh made (kernel, modules, busybox, ethtool), WORK a
# directory for the initramfs and what was said. Builds the tests and runs them as on this machine, with HYTHE_TEST_BOARD set: then none of
# them may be skipped. Needs no root: tests are root on the board. Time there is that of the instructions executed (-icount), so that
# neither this machine's load nor its speed changes an outcome; figures of time are for comparing ways with each other, never a claim
# about hardware.

set -euo pipefail
cd "$(dirname "$0")/.."
emulator=qemu-system-x86_64
# Ends a board that hangs; a run takes one to five minutes, by the load of this machine.
seconds_max=1800

fail() {
    printf 'network-guest: %s\n' "$*" >&2
    exit 1
}

# What a dynamic program needs, at the places where its loader looks: with_libraries ROOT PROGRAM
with_libraries() {
    local library
    while read -r library; do
        mkdir -p "$1${library%/*}"
        cp -Lu "$library" "$1$library"
    done < <(ldd "$2" 2>/dev/null | grep -o '/[^ ]*' || true)
}

# tool ROOT PROGRAM: into /bin.
tool() {
    cp -L "$2" "$1/bin/${2##*/}"
    with_libraries "$1" "$2"
}

# At its own place, where tests that were built here look for it: program ROOT PROGRAM
program() {
    mkdir -p "$1${2%/*}"
    strip -o "$1$2" "$2"
    with_libraries "$1" "$2"
}

pack() {
    local root=$1 board=$2 applet name
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,modules}
    cp scripts/network-init.sh "$root/init"
    chmod 755 "$root/init"
    cp "$board"/network-modules/*.ko "$root/modules/"
    cp "$board/system/bin/busybox" "$root/bin/"
    for applet in sh mount insmod echo sleep poweroff uname mkdir unshare; do
        ln -s busybox "$root/bin/$applet"
    done
    for name in ip tc; do
        tool "$root" "$(PATH=$PATH:/usr/sbin:/sbin command -v "$name" || fail "$name is missing: apt-get install iproute2")"
    done
    tool "$root" "$(find "$board/system" -type f -path '*sbin/ethtool' -print -quit)"
    (cd "$root" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) >"$root.cpio"
}

boot() {
    # One CPU and its own clock: the same instructions take the same time, however long they take here.
    timeout "$seconds_max" "$emulator" -accel tcg,thread=single -machine pc -m 768M -smp 1 \
        -icount shift=1,sleep=off -seed 1 -rtc clock=vm,base=2026-01-01 \
        -nodefaults -no-user-config -display none -monitor none -nic none -serial stdio -no-reboot \
        -kernel "$1/kernel" -initrd "$2" -append "console=ttyS0 quiet panic=-1 nokaslr" </dev/null
}

# The program that cargo made of a package's tests: test_program PACKAGE
test_program() {
    local said
    said=$(cargo test --package "$1" --test it --no-run 2>&1) || fail "$said"
    realpath "$(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$said")"
}

# add ROOT PROGRAM ARGUMENTS...: a test that the board runs.
add() {
    program "$1" "$2"
    echo "${*:2}" >>"$1/tests"
}

main() {
    (($# == 2)) || fail "BOARD WORK"
    local board work=$2 media command all
    board=$(realpath "$1")
    command -v "$emulator" >/dev/null || fail "$emulator is missing: apt-get install --no-install-recommends qemu-system-x86"
    [[ -d $board/network-modules ]] || fail "$board has no network-modules: run scripts/guest.sh $board"
    rm -rf "$work"
    mkdir -p "$work/root"
    work=$(realpath "$work")
    media=$(test_program hythe-media)
    add "$work/root" "$media" departures::
    add "$work/root" "$media" queued_in_qdisc::
    add "$work/root" "$media" network::a_device_that_refuses_segmentation
    command=$(test_program hythe-cli)
    add "$work/root" "$command" departures::
    # The command that it was built with.
    program "$work/root" "$(realpath "${command%/*}/../hythe")"
    program "$work/root" "$(realpath "${command%/*}/../hythe-media")"
    pack "$work/root" "$board"
    all=$(wc -l <"$work/root/tests")
    echo "network-guest: $all test programs on Debian's kernel in QEMU (times are emulated)"
    boot "$board" "$work/root.cpio" | tr -d '\r' >"$work/said" || fail "the board ended badly; what it said is in $work/said"
    sed -n '/^test \|^spacing error\|handovers\|panicked\|^  *left:\|^ *right:\|^board:\|SKIPPED/s/^/    /p' "$work/said"
    grep -qx "board: passed $all of $all" "$work/said" || fail "tests failed; what the board said is in $work/said"
    ! grep -q SKIPPED "$work/said" || fail "tests were skipped on the board; what it said is in $work/said"
    rm -rf "$work/root" "$work/root.cpio"
}

main "$@"
