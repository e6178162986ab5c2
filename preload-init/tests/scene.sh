#!/usr/bin/env bash
# What the tests from outside share: a folder to work in, files and a pack, running the program, and looking at what
# came of it.
#
# Sourced by behaviour.sh and emulated.sh, with `program`, `tools` and `work` set; the folder is on a real file
# system, since tmpfs has nothing to read ahead from. Never leaves the folder behind.

trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
pack=$work/boot.pack
failed=0

# Pages that are gone because somebody emptied the whole page cache, as tests of somebody else do, or because the machine takes back what
# nobody reads (DAMON does, every few seconds), spoil ours. Seen by a count, and by pages that
# nobody touches. DAMON samples: it may take ours and not those, so where it runs every failure may
# be its.
witness=.witness
call_witness() {
    "$tools/pages" make "$witness" 256
    dropped=$(caches_dropped)
}
caches_dropped() {
    sed -n 's/^drop_pagecache //p' /proc/vmstat
}
is_spoiled() {
    [[ $dropped != "$(caches_dropped)" ]] || has_damon ||
        ! "$tools/pages" expect "$witness" 0-255 >/dev/null
}
has_damon() {
    grep -qsx 'kdamond\.[0-9]*' /proc/[0-9]*/comm
}

# One run of a test, in a shell of its own that ends with the first command that fails.
run_once() {
    rm -rf "${work:?}"/*
    (
        set -e
        "$1"
    ) >"$work/.output" 2>&1
}

# A test is a function. 77: skipped, with the reason in `skipped`.
check() {
    local status=1 dropped tries=5
    while ((status != 0 && status != 77 && tries-- > 0)); do
        call_witness
        run_once "$2"
        status=$?
        ((status == 0 || status == 77)) || is_spoiled || break
    done
    case $status in
    0) printf 'ok     %s\n' "$1" ;;
    77) printf 'SKIPPED %s: %s\n' "$1" "$(<"$work/skipped")" ;;
    *)
        printf 'FAILED %s (%s)\n' "$1" "$status"
        sed 's/^/    /' "$work/.output"
        # shellcheck disable=SC2034 # read by who sources this
        failed=1
        ;;
    esac
}

skip() {
    echo "$*" >"$work/skipped"
    exit 77
}

# Runs the program with our pack; what it says is in `said`, what it leaves for programs in `log`.
preload() {
    : >log
    "${before[@]}" "$program" --pack "$pack" --log "$work/log" "$@" 2>said
}
before=()

# says TEXT, logs TEXT: the last line has it.
# A file's name as preload-init says it: of a long one the end, so that the line stays one (FILE_NAME_MOST in report.c).
shown() {
    if ((${#1} > 60)); then
        printf '...%s' "${1: -60}"
    else
        printf '%s' "$1"
    fi
}
says() {
    grep -qF -- "$1" said || {
        echo "said: $(<said)"
        echo "not: $1"
        return 1
    }
}
logs() {
    tail -n 1 log | grep -qF -- "$1" || {
        echo "logged: $(<log)"
        echo "not: $1"
        return 1
    }
}

# Three files, none of them in the page cache.
make_files() {
    "$tools/pages" make a 64
    "$tools/pages" make b 40
    "$tools/pages" make c 1
    sync -f .
    forget
}
forget() {
    local status=0
    "$tools/pages" drop a b c || status=$?
    ((status != 3)) || skip "the file system of $work does not drop pages when told to; put BUILD on another one"
    return "$status"
}
record() {
    "$tools/pack" "$pack" "$work/a:0+2" "$work/b:0+1" "$work/a:12+20" "$work/c:0+1" "$work/a:32+5" "$work/b:39+1"
}
expect_all() {
    "$tools/pages" expect a "0-1 12-36"
    "$tools/pages" expect b "0-0 39-39"
    "$tools/pages" expect c "0-0"
}
expect_nothing() {
    local file
    for file in a b c; do
        "$tools/pages" expect "$file" ""
    done
}

