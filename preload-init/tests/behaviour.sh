#!/usr/bin/env bash
# What preload-init does, seen from outside: which pages are resident afterwards, what it says, and what the next
# program gets.
#
# Called by `make -C preload-init test`: behaviour.sh PROGRAM FOLDER-OF-TOOLS FOLDER. Each test has a name, which is
# printed. Never executes this machine's init: process 1 is played in a directory that is a root of its own.

set -uo pipefail
program=$(realpath "$1")
tools=$(realpath "$2")
work=$(mktemp -d "$(realpath "$3")/behaviour.XXXXXX")
# shellcheck source=SCRIPTDIR/scene.sh
source "$(dirname "$0")/scene.sh"

exactly_these_pages() {
    make_files
    record
    preload
    says "30 pages of 3 files"
    logs "pack=$pack end=all pages=30 wanted=30"
    logs "bytes=122880 files=3 changed=0 missing=0 broken=0 ns="
    logs "boottime_ns="
    expect_all
    # The second time the way is known from the start, and the files are there.
    preload
    says "30 pages of 3 files"
    expect_all
}

# The file system takes readahead() and loads nothing, as UBIFS and JFFS2 do.
where_readahead_loads_nothing() {
    make_files
    record
    before=("$tools/refuse" readahead=0 --)
    preload
    logs "end=all pages=30 wanted=30 queued=0"
    expect_all
}

large_files_are_asked_for() {
    "$tools/pages" make a 1024
    "$tools/pages" make b 1
    "$tools/pages" make c 1
    forget
    "$tools/pack" "$pack" "$work/a:0+1000"
    preload
    # All but the step that was tried out and waited for.
    logs "pages=1000 wanted=1000 queued=968"
    "$tools/pages" expect a "0-999"
}

single_pages_are_asked_for() {
    local i extents=()
    for i in {0..99}; do
        extents+=("$work/a:$((i * 2))+1")
    done
    "$tools/pages" make a 200
    "$tools/pages" make b 1
    "$tools/pages" make c 1
    forget
    "$tools/pack" "$pack" "${extents[@]}"
    preload
    logs "pages=100 wanted=100 queued=99"
    forget
    before=("$tools/refuse" readahead=0 --)
    preload
    logs "pages=100 wanted=100 queued=0"
    "$tools/pages" expect a "$(seq 0 2 198 | sed 's/.*/&-&/' | tr '\n' ' ' | sed 's/ $//')"
}

on_old_kernels() {
    make_files
    record
    before=("$tools/refuse" statx=38 openat2=38 readahead=38 mincore=38 ppoll=38 fadvise64=38 --)
    preload
    logs "end=all pages=30 wanted=30 queued=0"
    # Without fadvise() the kernel may read around what it was asked for: at least these.
    forget
    before=("$tools/refuse" statx=38 openat2=38 readahead=38 mincore=38 ppoll=38 --)
    preload --root "$work" --pack /boot.pack
    says "; 3 files are not there: "
    "$tools/pack" "$pack" --below "$work" "$work/a:0+2" "$work/a:12+25" "$work/b:0+1" "$work/b:39+1" "$work/c:0+1"
    preload --root "$work" --pack /boot.pack
    logs "end=all pages=30 wanted=30 queued=0"
    expect_all
}

# changed FILE: it alone is skipped and named.
skips_only() {
    forget
    preload
    says "; 1 file $2$(shown "$work/$1")"
    "$tools/pages" expect "$1" ""
    logs "$3=1"
}
changed_files() {
    make_files
    record
    touch b
    skips_only b "changed since: " changed
    says "28 of 30 pages of 2 files"
    make_files
    record
    # Same time of modification, another size.
    touch -r b stamp
    truncate -s -1 b
    touch -r stamp b
    skips_only b "changed since: " changed
    make_files
    record
    # Same size and time, another inode.
    cp -p b copy
    mv copy b
    skips_only b "changed since: " changed
    rm b
    mkdir b
    preload
    says "; 1 file changed since: $(shown "$work/b")"
    rmdir b
    # Opening does not wait for whoever writes.
    mkfifo b
    preload
    says "; 1 file changed since: $(shown "$work/b")"
    rm b
    ln -s b b
    preload
    says "; 1 file cannot be read: $(shown "$work/b")"
    rm b
    preload
    says "; 1 file is not there: $(shown "$work/b")"
    logs "changed=0 missing=1 broken=0"
}

many_files_named() {
    local i extents=()
    for i in {0..99}; do
        echo "$i" >"file $i"
        extents+=("$work/file $i:0+1")
    done
    "$tools/pack" "$pack" "${extents[@]}" "${extents[@]}"
    rm file*
    preload
    says "0 of 200 pages of 0 files"
    says "; 100 files are not there: "
    says "/file 0, "
    says "/file 2, ..."
    ! says "/file 3" || return 1
    logs "end=all"
    logs "missing=100"
    (($(wc -l <said) == 1 && $(wc -L <log) < 976))
}

# More files than are kept open, in turns, with few handles allowed.
more_files_than_handles() {
    local i extents=()
    for i in {0..99}; do
        "$tools/pages" make "file$i" 2
        extents+=("$work/file$i:0+1")
    done
    for i in {0..99}; do
        extents+=("$work/file$i:1+1")
    done
    "$tools/pack" "$pack" "${extents[@]}"
    (
        ulimit -n 12
        preload
    )
    logs "end=all pages=200 wanted=200"
    logs "files=100 changed=0 missing=0 broken=0"
}

portable_packs() {
    make_files
    "$tools/pack" "$pack" --any-inode "$work/a:3+4"
    cp -p a copy
    mv copy a
    sync -f .
    forget
    preload
    logs "end=all pages=4"
    "$tools/pages" expect a "3-6"
    # The image keeps whole seconds, or the file system that was recorded did.
    local recorded built expected
    for recorded in 100.7 100; do
        for built in "100 4" "100.7 4" "100.2 $([[ $recorded == 100 ]] && echo 4 || echo 0)" "101 0" "99 0" "99.9 0"; do
            read -r built expected <<<"$built"
            touch -d "@$recorded" a
            "$tools/pack" "$pack" --any-inode "$work/a:3+4"
            touch -d "@$built" a
            forget
            preload
            logs "pages=$expected wanted=4"
        done
    done
    # A pack for this system compares all of the time.
    touch -d @100.7 a
    "$tools/pack" "$pack" "$work/a:3+4"
    touch -d @100 a
    forget
    preload
    logs "pages=0 wanted=4"
}

budgets() {
    make_files
    record
    # The first 2 + 1 + 7 pages, in the order of the pack.
    preload --budget 40K
    says "10 of 30 pages of 2 files"
    says "; the budget of 40 KiB is used up"
    logs "end=budget pages=10 wanted=30"
    "$tools/pages" expect a "0-1 12-18"
    "$tools/pages" expect b "0-0"
    "$tools/pages" expect c ""
    forget
    preload --budget 0
    logs "end=budget pages=0 wanted=30"
    preload --budget 0%
    logs "end=budget pages=0 wanted=30"
    expect_nothing
    preload --budget 120K,50%
    logs "end=all pages=30"
    forget
    preload --seconds 0
    says "; stopped after 0 s"
    logs "end=time pages=0"
    expect_nothing
}

# Free memory falls by 1 MiB at each look, from 16 of 64 MiB on: the floor is a sixteenth.
memory_runs_short() {
    "$tools/pages" make a 2000
    "$tools/pages" make b 1
    "$tools/pages" make c 1
    forget
    "$tools/pack" "$pack" "$work/a:0+2000"
    before=("$tools/poor" 64 16 1 --)
    preload
    # Looks at 16 (the pack) and 15 (half of it is the budget: 1,920 pages), then steps of 32 pages at 14, 13 ... 5.
    says "320 of 2000 pages of 1 file"
    says "; stopped: free memory runs short"
    logs "end=memory pages=320"
    "$tools/pages" expect a "0-319"
    # Slower than the budget: that is what ends it.
    forget
    before=("$tools/poor" 64 6 0 --)
    preload
    logs "end=budget pages=768"
    before=("$tools/poor" 64 3 0 --)
    preload
    logs "end=memory pages=0"
}

the_kernels_log() {
    [[ -w /dev/kmsg && $(</proc/sys/kernel/printk_devkmsg) != off* ]] && dmesg >/dev/null 2>&1 ||
        skip "/dev/kmsg takes nothing from this user, or shows nothing"
    "$program" --pack "$pack" 2>said || true
    dmesg >shown
    grep -F "preload-init: pack=$pack end=no-pack pages=0 " shown
}

switched_off() {
    make_files
    record
    : >"$pack.off"
    preload echo next >out
    says "nothing read ahead: $pack is switched off by the file $pack.off; remove that to switch it on"
    logs "end=off pages=0"
    [[ $(<out) == next ]]
    expect_nothing
    rm "$pack.off"
    preload
    expect_all
}

# does_nothing TEXT WORD: says why, still executes the command, and fails when there is none.
does_nothing() {
    local status=0
    # A static program: what is refused to us is refused to it, too.
    preload -- "$tools/process" next >out
    grep -q "^argument 1: next$" out
    says "nothing read ahead: $1"
    logs "end=$2 pages=0"
    (($(wc -l <said) == 1))
    preload || status=$?
    ((status == 1))
}
bad_packs() {
    local size i
    make_files
    record
    size=$(stat -c %s "$pack")
    for i in 0 17 39 40 $((size - 1)); do
        record
        truncate -s "$i" "$pack"
        does_nothing "$pack is no good pack: " refused
    done
    record
    printf X | dd of="$pack" bs=1 seek=100 conv=notrunc status=none
    does_nothing "$pack is no good pack: checksum; record it anew" refused
    record
    echo >>"$pack"
    does_nothing "$pack is no good pack: its size is not what the header says" refused
    truncate -s 40M "$pack"
    does_nothing "$pack is no good pack: its size" refused
    rm "$pack"
    does_nothing "$pack cannot be opened: there is none (error 2)" no-pack
    mkdir "$pack"
    does_nothing "$pack cannot be read: no regular file" unreadable
    rmdir "$pack"
    mkfifo "$pack"
    does_nothing "$pack cannot be read: no regular file" unreadable
    rm "$pack"
    echo >file
    pack=file/boot.pack does_nothing "file/boot.pack cannot be opened: a part of its path is no directory" no-pack
    expect_nothing
}

no_root() {
    local status=0
    preload --root /nowhere echo next >out
    [[ $(<out) == next ]]
    says "nothing read ahead: /nowhere cannot be opened: there is none"
    logs "end=no-root"
}

no_memory() {
    make_files
    record
    truncate -s 20M "$pack"
    before=(prlimit --as=10000000 --)
    does_nothing "no memory for the 20971520 bytes of $pack" no-memory
    record
    before=("$tools/refuse" sysinfo=38 --)
    does_nothing "no memory for the" no-memory
    before=("$tools/refuse" pread64=5 --)
    does_nothing "$pack cannot be read: the storage failed (error 5)" unreadable
    expect_nothing
}

below_a_root() {
    make_files
    mkdir -p tree/usr/lib tree/etc/hythe
    cp a tree/usr/lib/a
    ln -s usr/lib tree/lib
    "$tools/pack" tree/etc/hythe/boot.pack --below "$work/tree" "$work/tree/lib/a:5+3"
    # Below the root this is the same; from outside it leads elsewhere.
    ln -sfn /usr/lib tree/lib
    sync -f .
    "$tools/pages" drop tree/usr/lib/a
    preload --root "$work/tree" --pack /etc/hythe/boot.pack
    logs "pack=/etc/hythe/boot.pack end=all pages=3"
    "$tools/pages" expect tree/usr/lib/a "5-7"
}

options_it_does_not_know() {
    local status option
    for option in --odd -x "--seconds x" "--budget 1X" "--pack"; do
        status=0
        # shellcheck disable=SC2086 # an option and its value
        "$program" $option 2>said || status=$?
        ((status == 2 && $(wc -l <said) == 1))
        says "see preload-init --help"
    done
    "$program" --help | grep -q "^usage: preload-init"
}

commands_that_do_not_work() {
    local status=0
    PATH=/nowhere:/bin preload -- nowhere-to-be-found || status=$?
    ((status == 1))
    says "nowhere-to-be-found is not executed: there is none (error 2)"
    echo >file
    preload -- ./file || status=$?
    says "./file is not executed: no permission (error 13)"
    # Looked for like any other command.
    mkdir here
    ln -s "$tools/process" here/found-by-its-name
    PATH=/nowhere:$work/here preload -- found-by-its-name >out
    grep -q "argument 0: found-by-its-name" out
    PATH='' preload -- /bin/true
}

nothing_changes_for_the_command() {
    make_files
    record
    local start=("$tools/process" --odd-signals) show=("$tools/process" one "two words" "")
    exec 7<"$pack"
    nice -n 3 "${start[@]}" "${show[@]}" >straight 2>said
    nice -n 3 "${start[@]}" "$program" --pack "$pack" --log "$work/log" -- "${show[@]}" >through 2>said
    # Where output and messages had got to is theirs.
    diff <(grep -v ' file [12]:' straight) <(grep -v ' file [12]:' through)
    grep -q "^signal 10: ignored$" through
    grep -q "^signal 13: blocked pending$" through
    grep -q "^nice $(($(nice) + 3))$" through
    # With nothing open at all.
    env -i "${show[@]}" <&- 2>&- 7<&- >straight
    env -i "$program" --pack "$pack" --log '' -- "${show[@]}" <&- 2>&- 7<&- >through
    diff <(grep -v ' file 1:' straight) <(grep -v ' file 1:' through)
    ! grep -q "^open file [02]:" through || return 1
}

messages_that_nobody_takes() {
    make_files
    record
    # A pipe that is closed: no signal comes through, neither now nor pending.
    "$program" --pack "$pack" --log '' -- "$tools/process" --odd-signals "$tools/process" 2> >(exec sleep 0) >closed
    (
        trap '' PIPE
        exec 2> >(exec true)
        sleep 0.2
        trap - PIPE
        exec "$program" --pack "$pack" --log '' -- "$tools/process" >closed
    )
    grep -q "^signal 13:$" closed
    # A pipe that is full and stays so: the wait is bounded.
    mkfifo full
    exec 8<>full
    dd if=/dev/zero of=full oflag=nonblock bs=4096 2>/dev/null || true
    # The limit is for who waits for ever.
    timeout 60 "$program" --pack "$pack" --log '' -- /bin/echo next 2>full >out
    [[ $(<out) == next ]]
}

# A root of its own with preload-init, an init that shows what it got, and three files. as_first ARGUMENT...
make_root() {
    ((EUID == 0)) || unshare --user --map-root-user --pid --fork true 2>/dev/null ||
        skip "process 1 of a namespace needs root or user namespaces"
    mkdir -p root/{sbin,etc/hythe,dev,bin}
    cp "$program" root/sbin/preload-init
    cp "$tools/process" root/sbin/init
    cp "$tools/process" root/start
    make_files
    mv a b c root/
    "$tools/pack" root/etc/hythe/boot.pack --below "$work/root" "$work/root/a:0+2" "$work/root/b:0+1" "$work/root/a:12+25"
    cp root/etc/hythe/boot.pack root/other.pack
    (cd root && forget)
}
as_first() {
    local user=()
    ((EUID == 0)) || user=(--user --map-root-user)
    env -i HOME=/ TERM=linux "${kernel[@]}" unshare "${user[@]}" --pid --fork --kill-child --root="$work/root" \
        --wd=/ "$@" </dev/null
}
kernel=()

as_process_1() {
    make_root
    local arguments=(single -- "a b")
    as_first /start --odd-signals /sbin/init "${arguments[@]}" >straight 2>said
    as_first /start --odd-signals /sbin/preload-init "${arguments[@]}" >through 2>said
    says "preload-init: 28 pages of 2 files"
    (($(wc -l <said) == 1))
    diff <(grep -v ' file [12]:' straight) <(grep -v ' file [12]:' through)
    grep -q "^process 1: yes$" through
    grep -q "^argument 0: /sbin/init$" through
    grep -q "^signal 10: ignored$" through
    "$tools/pages" expect root/a "0-1 12-36"
    "$tools/pages" expect root/b "0-0"
    "$tools/pages" expect root/c ""
}

settings_of_the_kernel_line() {
    make_root
    cp "$tools/process" root/bin/other
    : >root/dev/kmsg
    kernel=(preload_pack=/other.pack preload_init=/bin/other preload_budget=8K preload_log=/dev/kmsg)
    as_first /bin/other one >straight 2>said
    as_first /sbin/preload-init one >through 2>said
    diff <(grep -v ' file [12]:' straight) <(grep -v ' file [12]:' through)
    grep -q "^environment: preload_budget=8K$" through
    says "2 of 28 pages of 1 file"
    grep -q "^<7>preload-init: pack=/other.pack end=budget pages=2 wanted=28 " root/dev/kmsg
    kernel=(preload_quiet=1)
    as_first /sbin/preload-init >through 2>said
    [[ ! -s said ]]
    # What is not understood does not count, and is said even then.
    kernel=(preload_quiet=1 preload_budget=much)
    as_first /sbin/preload-init >through 2>said
    says "28 pages of 2 files"
    says "; preload_budget=much is not understood and does not count"
    kernel=(preload_quiet=1 preload_pack=/none)
    as_first /sbin/preload-init >through 2>said
    says "nothing read ahead: /none cannot be opened"
    grep -q "^argument 0: /sbin/init$" through
}

an_init_that_does_not_work() {
    make_root
    local status=0
    kernel=(preload_init=/bin/nowhere)
    as_first /sbin/preload-init >through 2>said
    says "/bin/nowhere is not executed: there is none (error 2)"
    grep -q "^argument 0: /sbin/init$" through
    # Itself in the place of the real one must not start for ever.
    kernel=()
    mv root/sbin/init root/bin/sh
    ln root/sbin/preload-init root/sbin/init
    as_first /sbin/preload-init >through 2>said
    says "/sbin/init is not executed: it is preload-init itself"
    grep -q "^argument 0: /bin/sh$" through
    chmod -x root/bin/sh
    as_first /sbin/preload-init >through 2>said || status=$?
    ((status == 1))
    says "/bin/sh is not executed: no permission (error 13)"
    says "no init works; add preload_init=PATH"
}

a_console_that_was_not_there() {
    make_root
    : >root/dev/console
    as_first /sbin/init >straight 2>&-
    as_first /sbin/preload-init >through 2>&-
    grep -q "^preload-init: 28 pages of 2 files" root/dev/console
    diff <(grep -v ' file 1:' straight) <(grep -v ' file 1:' through)
    ! grep -q "^open file 2:" through || return 1
}

check "exactly the pages of the pack are resident afterwards" exactly_these_pages
check "the same where readahead() loads nothing" where_readahead_loads_nothing
check "long extents are asked for and not waited for" large_files_are_asked_for
check "pages that stand alone are asked for, too" single_pages_are_asked_for
check "the same on a kernel without statx, openat2, readahead, mincore, ppoll" on_old_kernels
check "files that changed or are gone are skipped and named" changed_files
check "a hundred missing files are one short line" many_files_named
check "a hundred files with twelve handles" more_files_than_handles
check "packs that do not compare inodes" portable_packs
check "budgets and time limits read from the front and stop" budgets
check "free memory that falls while reading ends it" memory_runs_short
check "the kernel's log has the line for programs" the_kernels_log
check "a pack that is switched off" switched_off
check "absent, cut, damaged packs: the reason is said, the command runs" bad_packs
check "a root that is not there" no_root
check "no memory, no reading: the command runs" no_memory
check "below a root, links stay inside" below_a_root
check "options that it does not know" options_it_does_not_know
check "commands that do not work" commands_that_do_not_work
check "arguments, environment, signals, files, limits reach the command untouched" nothing_changes_for_the_command
check "closed and stuck consoles" messages_that_nobody_takes
check "as process 1: the same for the real init" as_process_1
check "as process 1: settings from the kernel's command line" settings_of_the_kernel_line
check "as process 1: an init that does not work, or is preload-init" an_init_that_does_not_work
check "as process 1: without standard error the console is opened" a_console_that_was_not_there
exit "$failed"
