#!/usr/bin/env bash
# Whether preload-init for another machine does the same as the one for this machine: system calls, their numbers and
# structs.
#
# Called by `make -C preload-init cross`: emulated.sh NAME EMULATOR PROGRAM OLD-PROGRAM FOLDER-OF-TOOLS FOLDER. An
# empty emulator is none. The old program is one that believes its kernel to be old. Never judges how fast anything
# is.

set -uo pipefail
name=$1
emulator=$2
program=$(realpath "$3")
old_program=$(realpath "$4")
tools=$(realpath "$5")
if [[ $emulator ]] && ! type -P "$emulator" >/dev/null; then
    echo "SKIPPED $name is built, but not run: $emulator is missing (Debian: qemu-user)"
    exit 0
fi
work=$(mktemp -d "$(realpath "$6")/emulated.XXXXXX")
# shellcheck source=SCRIPTDIR/scene.sh
source "$(dirname "$0")/scene.sh"
# The emulator cuts sizes of memory to the bits of its machine: with 24 GiB here it may tell a 32-bit program of next to none.
[[ ! $emulator ]] || before=("$tools/poor" 2048 1536 0 -- "$(type -P "$emulator")")

pages_and_packs() {
    local status=0
    make_files
    record
    touch c
    preload "$tools/process" next >out
    grep -q "^argument 1: next$" out
    says "29 of 30 pages of 2 files"
    says "; 1 file changed since: $(shown "$work/c")"
    logs "pack=$pack end=all pages=29 wanted=30"
    "$tools/pages" expect a "0-1 12-36"
    "$tools/pages" expect b "0-0 39-39"
    "$tools/pages" expect c ""
    forget
    preload --budget 40K
    logs "end=budget pages=10"
    "$tools/pages" expect a "0-1 12-18"
    echo >>"$pack"
    preload || status=$?
    ((status == 1))
    says "$pack is no good pack: its size is not what the header says"
}

times_before_1970_and_below_a_root() {
    make_files
    touch -d "1969-12-31 23:59:58.123456789 UTC" b
    "$tools/pack" "$pack" --below "$work" "$work/b:3+4"
    preload --root "$work" --pack /boot.pack
    logs "end=all pages=4 wanted=4"
    "$tools/pages" expect b "3-6"
}

past_four_gigabytes() {
    make_files
    truncate -s 6G large
    printf X | dd of=large bs=4096 seek=1310720 conv=notrunc status=none
    sync -f .
    "$tools/pages" drop large
    "$tools/pack" "$pack" "$work/large:1310720+2"
    preload
    logs "end=all pages=2 wanted=2"
    "$tools/pages" expect large "1310720-1310721"
    rm large
}

old_kernel() {
    program=$old_program
    pages_and_packs
    times_before_1970_and_below_a_root
    past_four_gigabytes
}

check "$name: pages, changed files, budget, packs that are refused" pages_and_packs
check "$name: times before 1970, and below a root" times_before_1970_and_below_a_root
check "$name: pages past 4 GiB" past_four_gigabytes
check "$name: the same by the calls of old kernels" old_kernel
exit "$failed"
