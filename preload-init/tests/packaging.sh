#!/usr/bin/env bash
# Whether what packaging/ ships does what it says: shells accept the scripts, systemd the units, and the scripts call
# us rightly.
#
# Called by `make -C preload-init test`: packaging.sh PROGRAM FOLDER-OF-TOOLS FOLDER PACKAGING. Never installs anything.

set -uo pipefail
program=$(realpath "$1")
tools=$(realpath "$2")
work=$(mktemp -d "$(realpath "$3")/packaging.XXXXXX")
packaging=$(realpath "$4")
initramfs=$packaging/initramfs-tools
# shellcheck source=SCRIPTDIR/scene.sh
source "$(dirname "$0")/scene.sh"
scripts=("$initramfs"/hooks/* "$initramfs"/scripts/*/*)
record_init=$packaging/init/preload-record-init

shells_accept_them() {
    local script
    for script in "${scripts[@]}"; do
        sh -n "$script"
        [[ -x $script ]]
        [[ $(sh "$script" prereqs) == "" ]]
    done
    sh -n "$record_init"
    [[ -x $record_init ]]
}

shellcheck_accepts_them() {
    type -P shellcheck || skip "shellcheck is missing"
    # 1091: what they source is on another machine; 2154: the initramfs sets it.
    shellcheck --exclude=SC1091,SC2154 "${scripts[@]}" "$record_init"
}

# A script that names our program at its place: with the built one, and others' files that play theirs.
placed() {
    sed -e "s,/sbin/preload-init,$program,g" -e "s,/usr/share/initramfs-tools,$work," "$1" >script
}

the_hook_copies_the_program() {
    placed "$initramfs/hooks/hythe-preload"
    # shellcheck disable=SC2016 # the hook's
    echo 'copy_exec() { echo "copied $1 to $2"; }' >hook-functions
    [[ $(sh script) == "copied $program to $program" ]]
    sed -i "s,$program,/nowhere,g" script
    sh script 2>said
    says "/nowhere is not installed; nothing will be read ahead"
}

the_initramfs_reads_ahead() {
    make_files
    mkdir -p tree/etc/hythe
    mv a tree/a
    "$tools/pack" tree/etc/hythe/boot.pack --below "$work/tree" "$work/tree/a:4+9"
    placed "$initramfs/scripts/local-bottom/hythe-preload"
    rootmnt=$work/tree sh script 2>said
    says "9 pages of 1 file"
    "$tools/pages" expect tree/a "4-12"
    "$tools/pages" drop tree/a
    rootmnt=$work/tree preload_budget=8K preload_quiet=1 preload_seconds=60 sh script 2>said
    [[ ! -s said ]]
    "$tools/pages" expect tree/a "4-5"
    # A boot goes on, whatever happens.
    rootmnt=$work/tree preload_pack=/none preload_budget=x sh script 2>said
    rootmnt=$work/nowhere sh script 2>said
    says "cannot be opened"
}

# With a recorder and a real init of ours; nothing is mounted here.
boots_by_record_init() {
    sed -e "s,/usr/bin/hythe-preload,$work/recorder," -e 's,mount -t,true,' -e "s,/dev/kmsg,$work/log," "$record_init" >script
    # shellcheck disable=SC2016 # the init's
    printf '#!/bin/sh\necho "init $*"\n' >init
    chmod +x init
    [[ $(preload_init=$work/init preload_pack=$work/the.pack preload_seconds=7 sh script "a b" c 2>said) == "init a b c" ]]
}

a_boot_is_recorded_and_goes_on() {
    printf '#!/bin/sh\necho "recorder $*"\n' >recorder
    chmod +x recorder
    boots_by_record_init
    [[ ! -s said ]]
    [[ $(<log) == "recorder record --boot --for 7 -o $work/the.pack" ]]
    # There is a pack already: it stays.
    touch the.pack
    : >log
    boots_by_record_init
    says "the.pack is there already"
    [[ ! -s log ]]
    # There is no recorder.
    rm the.pack recorder
    boots_by_record_init
}

systemd_accepts_the_units() {
    type -P systemd-analyze || skip "systemd-analyze is missing"
    local unit
    mkdir units
    for unit in "$packaging"/systemd/*.service; do
        sed -e "s,/sbin/preload-init,$program," -e "s,/usr/bin/hythe[a-z-]*,$(type -P true)," "$unit" >"units/${unit##*/}"
    done
    systemd-analyze verify --man=no units/*.service >verdict 2>&1 || {
        cat verdict
        return 1
    }
    # What it only warns about is ours if it names our units.
    ! grep hythe verdict || return 1
}

# As a target that wants them would order them: no cycle.
systemd_finds_no_cycle() {
    type -P systemd-analyze || skip "systemd-analyze is missing"
    [[ -e /lib/systemd/system/multi-user.target ]] || skip "systemd's own units are not installed"
    local unit
    mkdir -p units/multi-user.target.wants units/sysinit.target.wants
    cp -P /lib/systemd/system/*.target units/
    for unit in "$packaging"/systemd/*.service; do
        sed -e "s,/sbin/preload-init,$program," -e "s,/usr/bin/hythe[a-z-]*,$(type -P true)," "$unit" >"units/${unit##*/}"
    done
    ln -s ../hythe-preload-finish.service units/multi-user.target.wants/
    ln -s ../hythe-preload.service units/sysinit.target.wants/
    SYSTEMD_UNIT_PATH=$work/units: systemd-analyze verify --man=no "$work/units/multi-user.target" >verdict 2>&1 || true
    cat verdict
    # Whoever is on a cycle is named. Others may have cycles of their own.
    ! grep hythe verdict || return 1
}

the_program_takes_the_options_they_give() {
    local status=0 line
    line=$(sed -n 's/^ExecStart=//p' "$packaging/systemd/hythe-preload.service")
    # shellcheck disable=SC2086 # a command line
    "$program" ${line#* } --log '' >/dev/null 2>said || status=$?
    ((status != 2))
    says "/etc/hythe/boot.pack"
}

check "packaging: shells accept the scripts" shells_accept_them
check "packaging: shellcheck accepts them" shellcheck_accepts_them
check "packaging: the hook copies the program" the_hook_copies_the_program
check "packaging: the initramfs reads ahead below its root" the_initramfs_reads_ahead
check "packaging: a boot is recorded and goes on" a_boot_is_recorded_and_goes_on
check "packaging: systemd accepts the units" systemd_accepts_the_units
check "packaging: the units make no cycle" systemd_finds_no_cycle
check "packaging: the program takes the options of the unit" the_program_takes_the_options_they_give
exit "$failed"
