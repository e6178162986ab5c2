#!/usr/bin/env bash
# Boots Debian 12 in QEMU with what `packaging/` ships, installed as its README says: a boot is recorded, read ahead in each of the three
# ways, judged, and met with what may be wrong with a pack.
#
# Called by `make test-boot` as root: boot-debian.sh DIRECTORY HYTHE PRELOAD-INIT [BOOTS], with a `hythe` that is linked statically. With BOOTS, that many
# boots of each way from a slow disk are timed, too. The system is fetched once, by mmdebstrap from where it fetches unless told otherwise and with
# this machine's settings of apt, and kept in DIRECTORY (about 12 minutes and 700 MB the first time); the boots take 15 minutes or more. Mounts and processes are in name
# spaces of their own, and end with this script. Emulated time compares ways with each other; it is no claim about hardware.

set -euo pipefail
if [[ ! ${BOOT_DEBIAN_INSIDE-} ]]; then
    ((EUID == 0)) || { echo "boot-debian: needs root: it builds a system and mounts its image" >&2; exit 1; }
    BOOT_DEBIAN_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi
hythe=$(realpath "$2")
preload_init=$(realpath "$3")
boots=${4:-0}
directory=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packaging=$PWD/packaging
base=$directory/base
work=$directory/work
mount=$work/mount
pack=/etc/hythe/boot.pack
# What a boot may take, in seconds; a slow host emulates one in a minute.
time_limit=900
# Of the boots that are timed: a slow eMMC or card.
slow_disk=throttling.bps-read=$((8 << 20))
packages=systemd-sysv,initramfs-tools,linux-image-amd64,udev,kmod,procps,zstd
failed=0

fail() {
    printf 'boot-debian: %s\n' "$*" >&2
    exit 1
}

# check NAME COMMAND...: an assertion about the boot that was last.
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok      $case: $name"
    else
        echo "FAILED  $case: $name"
        failed=1
    fi
}

need() {
    local tool
    for tool in "$@"; do
        PATH=$PATH:/usr/sbin:/sbin type -P "$tool" >/dev/null || fail "$tool is missing"
    done
}

fetch() {
    echo "boot-debian: fetching Debian 12 (about 12 minutes, kept in $base)"
    rm -rf "$base" "$base.unfinished"
    mmdebstrap --mode=root --variant=minbase \
        --include="$packages" bookworm "$base.unfinished" \
        >"$directory/fetch.log" 2>&1 || fail "Debian cannot be fetched; see $directory/fetch.log"
    mv "$base.unfinished" "$base"
}

# As packaging/README.md says, all three ways beside each other: what is enabled, and the kernel's command line, choose.
install_all() {
    local root=$work/root
    install -D -t "$root/usr/bin" "$hythe" "$hythe-preload"
    install -D "$preload_init" "$root/sbin/preload-init"
    install "$packaging/init/preload-record-init" "$root/sbin/"
    mkdir -p "$root/etc/hythe"
    cp "$packaging"/systemd/*.service "$root/etc/systemd/system/"
    echo "/dev/vda / ext4 errors=remount-ro 0 1" >"$root/etc/fstab"
    install_observer "$root"
    # Debian's own initramfs, for the other two ways.
    cp -L "$root/initrd.img" "$work/initrd.plain"
    cp -L "$root/vmlinuz" "$work/kernel"
    cp -r "$packaging"/initramfs-tools/* "$root/etc/initramfs-tools/"
    mount -t proc proc "$root/proc"
    chroot "$root" update-initramfs -u
    umount "$root/proc"
    cp -L "$root/initrd.img" "$work/initrd.hook"
}

# Tells on the second serial line how the boot went, and ends the machine.
install_observer() {
    cat >"$1/usr/local/sbin/observe" <<'END'
#!/bin/sh
show() { echo "== $1"; shift; "$@" 2>&1; }
exec >/dev/ttyS1
show up-us systemctl show --property=ActiveEnterTimestampMonotonic --value multi-user.target
while pidof hythe >/dev/null; do sleep 1; done
show failed systemctl list-units --no-pager --plain --no-legend --state=failed
show recorder systemctl show --property=ActiveState,Result hythe-preload-record.service
show process-1 readlink /proc/1/exe
show command-line tr '\0' ' ' </proc/1/cmdline
show environment tr '\0' '\n' </proc/1/environ
show read-ahead cat /sys/class/bdi/254:0/read_ahead_kb
show record journalctl --no-pager -b -o short-monotonic -u hythe-preload-record
show read journalctl --no-pager -b -o short-monotonic -u hythe-preload
show finish journalctl --no-pager -b -o short-monotonic -u hythe-preload-finish
show kernel sh -c "dmesg | grep -e hythe -e preload-init:"
show pack ls -l /etc/hythe
show report hythe preload report /etc/hythe/boot.pack
show json hythe preload report --json /etc/hythe/boot.pack
show blame systemd-analyze blame --no-pager
show end uptime
systemctl poweroff
END
    chmod 755 "$1/usr/local/sbin/observe"
    cat >"$1/etc/systemd/system/observe.service" <<'END'
[Unit]
After=multi-user.target hythe-preload-finish.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/observe
[Install]
WantedBy=multi-user.target
END
    chroot "$1" systemctl enable --quiet observe
}

make_image() {
    rm -f "$work/disk"
    truncate --size=2G "$work/disk"
    PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -d "$work/root" "$work/disk"
}

# Changes the image: change COMMAND..., in which $mount is its root.
change() {
    local status=0
    mkdir -p "$mount"
    mount -o loop "$work/disk" "$mount"
    "$@" || status=$?
    umount "$mount"
    return "$status"
}

enable_only() {
    chroot "$mount" systemctl --quiet disable hythe-preload hythe-preload-record hythe-preload-finish
    chroot "$mount" systemctl --quiet enable "$@"
}

# boot NAME INITRD DRIVE-OPTIONS ARGUMENTS...: one boot; what it said is in $work/NAME.console and $work/NAME.observed.
boot() {
    case=$1
    local initrd=$2 drive=$3
    shift 3
    console=$work/$case.console
    observed=$work/$case.observed
    rm -f "$console" "$observed"
    # A busy host emulates the timer too late for the kernel's check of it, which would then take another way to connect it, and hang.
    timeout "$time_limit" qemu-system-x86_64 -accel tcg,thread=single -machine pc -m 768M -smp 1 -nodefaults -no-user-config \
        -display none -monitor none -nic none -no-reboot -kernel "$work/kernel" -initrd "$work/initrd.$initrd" \
        -drive "if=none,id=disk,format=raw,file=$work/disk$drive" -device virtio-blk-pci,drive=disk,request-merging=off \
        -serial "file:$console" -serial "file:$observed" \
        -append "root=/dev/vda ro console=ttyS0 quiet panic=-1 no_timer_check $*" || true
    check "it boots" is_up
}

# What the observer told under a name.
told() {
    tr -d '\r' <"$observed" | awk -v name="== $1" '/^== /{on = $0 == name; next} on'
}

is_up() {
    told_has up-us "^[1-9]" && told_has end ""
}

# Not grep -q: whoever writes to it would be killed when it has seen enough, and count as failed.
told_has() {
    [[ $(told "$1" | grep -c -- "$2") != 0 ]]
}

told_nothing() {
    [[ ! $(told "$1") ]]
}

console_has() {
    [[ $(tr -d '\r' <"$console" | grep -c -- "$1") != 0 ]]
}

# Lines of preload-init on the console: exactly one.
says_one_line() {
    [[ $(tr -d '\r' <"$console" | grep -c "preload-init: ") == 1 ]] && console_has "preload-init: $1"
}

# What a number of the summary is: report_is NAME COMPARISON VALUE
report_is() {
    told json | jq -e ".summary.$1 != null and .summary.$1 $2 $3" >/dev/null
}

pack_names() {
    jq -e --arg path "$1" 'any(.files[]; .path | test($path))' "$work/pack.json" >/dev/null
}

# Takes the recorded pack out of the image, and looks at it with the machine's own program.
take_pack() {
    cp "$mount$pack" "$work/boot.pack"
    "$hythe" preload show --json "$work/boot.pack" >"$work/pack.json"
}

record_by_unit() {
    change enable_only hythe-preload-record hythe-preload-finish
    record record-unit
    check "the recorder ended by itself" told_has recorder "^Result=success$"
}

# From the first program on: what systemd reads before it starts a unit is in the pack, too.
record_by_init() {
    change rm "$mount$pack"
    change enable_only hythe-preload-finish
    record record-init init=/sbin/preload-record-init
    local path
    for path in /systemd/system/basic.target$ /systemd/system-generators/; do
        check "it needs $path" pack_names "$path"
    done
}

# record NAME ARGUMENTS...
record() {
    boot "$1" plain "" "${@:2}"
    change take_pack || fail "nothing was recorded; see $observed"
    check "process 1 is systemd" told_has process-1 /systemd$
    check "nothing failed" told_nothing failed
    check "the kernel reads ahead again" told_has read-ahead "^128$"
    local path
    for path in /lib/systemd/systemd$ /libc.so.6$ /systemd-journald$ '\.ko$' '\.service$' /etc/passwd$; do
        check "it needs $path" pack_names "$path"
    done
    # The last is the recorder itself.
    for path in ^/proc ^/sys ^/run ^/dev ^/usr/bin/hythe-preload$; do
        check "it does not need $path" is_not pack_names "$path"
    done
    { told record; told kernel; } | sed -n 's,.*\(/etc/hythe/boot.pack: .*\),        \1,p'
}

is_not() {
    ! "$@"
}

# The three ways: what is enabled, the initramfs, the kernel's command line.
declare -A enabled=([init]="" [initramfs]="" [unit]=hythe-preload)
declare -A initrds=([init]=plain [initramfs]=hook [unit]=plain)
declare -A arguments=([init]=init=/sbin/preload-init [initramfs]="" [unit]="")

# with WAY DRIVE-OPTIONS NAME ARGUMENTS...: a boot that reads ahead this way. The image stays as it is.
with() {
    local way=$1 drive=$2 name=$3
    shift 3
    # shellcheck disable=SC2086 # no unit, or one
    change enable_only hythe-preload-finish ${enabled[$way]}
    boot "$name" "${initrds[$way]}" ",snapshot=on$drive" "${arguments[$way]} $*"
}

read_ahead() {
    local way=$1
    with "$way" "" "$way"
    check "nothing failed" told_nothing failed
    check "process 1 is systemd" told_has process-1 /systemd$
    check "all was read ahead" told_has kernel " end=all "
    check "no file counts as changed" told_has kernel " changed=0 missing=0 broken=0 "
    check "it was judged" report_is with == 1
    check "most of it was used" report_is hits ">=" 0.5
    echo "        $(told kernel | grep -o "preload-init: [0-9].*")"
    echo "        $(told finish | grep -o "start-up took .*")"
}

# What is in the way is said in one line, and the machine boots.
faults() {
    local way=$1
    change rm "$mount$pack"
    with "$way" "" "$way-no-pack"
    check "nothing failed" told_nothing failed
    # A unit is not started without.
    [[ $way == unit ]] || check "it says so" says_one_line "nothing read ahead: .*boot.pack"
    change damage
    with "$way" "" "$way-damaged"
    check "it says so" says_one_line "nothing read ahead: /etc/hythe/boot.pack is no good pack: checksum"
    change switch_off
    with "$way" "" "$way-off"
    check "it says so" says_one_line ".*boot.pack.off"
    check "nothing failed" told_nothing failed
    check "it counts as a boot without" report_is without == 1
    change switch_on
}

damage() {
    cp "$work/boot.pack" "$mount$pack"
    printf x | dd of="$mount$pack" bs=1 seek=200 conv=notrunc status=none
}

switch_off() {
    cp "$work/boot.pack" "$mount$pack"
    touch "$mount$pack.off"
}

switch_on() {
    rm "$mount$pack.off"
}

up_ms() {
    echo $(($(told up-us) / 1000))
}

# Times to multi-user.target from a slow disk, ways interleaved.
times() {
    local way i
    declare -A taken
    for ((i = 1; i <= boots; i++)); do
        for way in none init initramfs unit; do
            if [[ $way == none ]]; then
                change chroot "$mount" systemctl --quiet disable hythe-preload hythe-preload-finish
                boot "slow-none-$i" plain ",snapshot=on,$slow_disk"
            else
                with "$way" ",$slow_disk" "slow-$way-$i"
            fi
            taken[$way]+="$(up_ms) "
        done
    done
    for way in none init initramfs unit; do
        echo "to multi-user.target, $way: $(tr ' ' '\n' <<<"${taken[$way]}" | sed '/^$/d' | sort -n |
            awk '{all[NR] = $1} END {printf "median %d ms (%d to %d)", all[int((NR + 1) / 2)], all[1], all[NR]}')"
    done
}

main() {
    need qemu-system-x86_64 mkfs.ext4 jq chroot
    if [[ ! -d $base ]]; then
        need mmdebstrap
        fetch
    fi
    rm -rf "$work"
    mkdir -p "$work"
    cp -a "$base" "$work/root"
    install_all
    make_image
    record_by_unit
    record_by_init
    read_ahead init
    read_ahead initramfs
    read_ahead unit
    faults init
    faults initramfs
    faults unit
    ((boots == 0)) || times
    ((failed == 0)) || fail "something failed; what was said is in $work"
    rm -rf "$work"
}

# Sourced, it gives its functions.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main
