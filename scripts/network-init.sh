#!/bin/sh
# The first program of the board that scripts/network-guest.sh boots: makes its network possible and runs the tests that /tests names.
#
# Process 1 of the initramfs. Each line of /tests is a program and its arguments. Says `board: passed N of M` and ends the machine.

export PATH=/bin HYTHE_TEST_BOARD=1 TMPDIR=/tmp

say() {
    echo "board: $*"
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
mount -t tmpfs -o size=128m shm /dev/shm
for module in veth sch_fq sch_etf sch_prio sch_htb; do
    insmod "/modules/$module.ko" || say "cannot load $module.ko"
done
ip link set lo up
say "kernel $(uname -r)"
passed=0
all=0
while read -r program arguments; do
    all=$((all + 1))
    # shellcheck disable=SC2086 # arguments are words
    if "$program" $arguments --test-threads=1 --nocapture </dev/null; then
        passed=$((passed + 1))
    else
        say "failed: $program $arguments"
    fi
done </tests
say "passed $passed of $all"
poweroff -f
# It takes a moment; process 1 may not end before.
sleep 60
