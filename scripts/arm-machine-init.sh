#!/bin/sh
# The first program of the machines that scripts/arm-machines.sh boots: makes a disk out of a file, runs the tests, and then records, on this
# kernel, a program that uses pages that it was told to use.
#
# Process 1 of the initramfs. Says `machine: all is well` if it is, and ends the machine.

export PATH=/bin
bad=0

say() {
    echo "machine: $*"
}

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@"; then
        say "ok: $name"
    else
        say "FAILED: $name"
        bad=1
    fi
}

prepare() {
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev
    mkdir -p /dev/shm
    mount -t tmpfs shm /dev/shm
    while read -r module; do
        insmod "/modules/$module.ko" || say "cannot load $module.ko"
    done </modules/order
    mount -t ext4 -o loop /disk.ext4 /disk || say "FAILED: there is no disk"
    # Some tests take what they have just written as read. Where a page has several blocks of a disk, it is not whole then, and does not count as
    # in memory; here it is.
    export TMPDIR=/dev/shm
    # Others make their files on the disk, where they were built.
    while read -r place; do
        mkdir -p "$place" "/disk$place"
        mount --bind "/disk$place" "$place"
    done </places
    page_kib=$(sed -n 's/^KernelPageSize: *//p' /proc/self/smaps | sed -n '1s/ kB//p')
    say "$(uname -m), kernel $(uname -r), pages of $page_kib KiB, $(sed -n 's/^MemTotal: *//p' /proc/meminfo) of memory"
}

run_tests() {
    while read -r program arguments; do
        # shellcheck disable=SC2086 # arguments are words
        check "$program" "$program" $arguments --test-threads=1 --nocapture </dev/null
    done </tests/list
}

# What the program uses, in pages of 4 KiB: four by reading, the others through a mapping.
uses="r 5 1 m 300 2 m 700 40 r 303 3 r 1023 1"
file=/disk/data

# The pages that come with these, as PAGE lines, ascending: those of the machine may be larger. The file ends at page 1023.
expected() {
    echo "$uses" | awk -v unit=$((page_kib / 4)) '{
        for (at = 1; at <= NF; at += 3)
            for (page = $(at + 1); page < $(at + 1) + $(at + 2); page++)
                for (with = page - page % unit; with < page - page % unit + unit; with++) print with
    }' | sort -nu
}

# The pages of the file that a recording found.
found() {
    grep "^$file " "$1" | awk '{ for (page = $2; page < $2 + $3; page++) print page }' | sort -n
}

# record NAME: exactly what is used is found.
record() {
    # shellcheck disable=SC2086 # uses are words
    recorded record "/disk/$1.pack" /disk/touch "$file" $uses >"/tmp/$1" || return
    sed -n 's/^by /machine: by /p' "/tmp/$1"
    [ "$(found "/tmp/$1")" = "$(expected)" ] || {
        cat "/tmp/$1"
        return 1
    }
}

in_order_of_use() {
    first=$(grep "^$file " /tmp/traced | sed -n 1p | cut -d ' ' -f 2)
    # Page 5 was used first, and page 300 before page 303; in which order the two are printed tells which was asked for first.
    [ "$first" = $((5 / (page_kib / 4) * (page_kib / 4))) ]
}

drop_caches() {
    echo 3 >/proc/sys/vm/drop_caches
}

wanted() {
    grep "^/" "$1" | awk '{ pages += $3 } END { print pages }'
}

replay() {
    drop_caches
    recorded replay /disk/plain.pack >/tmp/replayed || return
    sed 's/^/machine: /' /tmp/replayed
    grep -q "^asked $(wanted /tmp/plain) loaded $(wanted /tmp/plain) there 0 changed 0 failed 0" /tmp/replayed
}

# What the small program loads is there for the large one.
preload() {
    drop_caches
    preload-init --pack /disk/plain.pack --log /tmp/log || return
    # It asks and does not wait.
    sleep 2
    recorded replay /disk/plain.pack >/tmp/replayed || return
    sed 's/^/machine: /' /tmp/replayed
    grep -q "^asked $(wanted /tmp/plain) loaded 0 there $(wanted /tmp/plain) " /tmp/replayed
}

make_file() {
    cat /bin/touch >/disk/touch && chmod 755 /disk/touch &&
        awk 'BEGIN { for (line = 0; line < 65536 - 2; line++) printf "%063d\n", line; printf "%028d", 0 }' >"$file" && sync
}

prepare
run_tests
check "a file of 1,024 pages" make_file
check "exactly what was used is recorded" record plain
mount -t tracefs trace /sys/kernel/tracing
check "the same with the kernel's trace" record traced
check "in the order of use" in_order_of_use
check "it is read ahead" replay
check "preload-init reads the same ahead" preload
[ $bad = 0 ] && say "all is well"
poweroff -f
# It takes a moment; process 1 may not end before.
sleep 60
