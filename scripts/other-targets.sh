#!/usr/bin/env bash
# Linux without the GNU C library, and with 32 bits: musl on x86-64 and on i686.
#
# `other-targets.sh check` compiles the libraries for both; `make test-slow` calls it. `other-targets.sh test` shares a pool between a
# 32-bit and a 64-bit process, and runs the static `hythe`; `make test-targets` calls it. rustup brings the standard libraries; where
# they cannot be had, that is said and the rest continues. The standard library brings musl itself; the C of the one library that has
# some, `ring`, is compiled by clang, which knows all targets.

set -euo pipefail
cd "$(dirname "$0")/.."
static_target=x86_64-unknown-linux-musl
narrow_target=i686-unknown-linux-musl
target_directory=${CARGO_TARGET_DIR:-target}
export CC_x86_64_unknown_linux_musl=clang CC_i686_unknown_linux_musl=clang
# What a product is built from.
libraries=(hythe-abi hythe-memory hythe-queue hythe-pool hythe-sys hythe-node hythe-rtcore hythe-rtp hythe-media hythe-recording hythe-preload hythe-latency hythe-report hythe hythe-demo hythe-c hythe-shm)

# Is the standard library of the target there, if need be by fetching it? standard_library TARGET
standard_library() {
    local root
    root=$(rustc --print sysroot)
    [[ ! -d $root/lib/rustlib/$1/lib ]] || return 0
    if ! command -v rustup >/dev/null; then
        echo "SKIPPED ($1: there is no rustup to fetch its standard library with)" >&2
        return 1
    fi
    if ! timeout 300 rustup target add "$1" >&2; then
        echo "SKIPPED ($1: \`rustup target add $1\` failed; it needs a network)" >&2
        return 1
    fi
}

# Both at once: the two chains of crates that wait for each other then share the CPUs.
check() {
    local target targets=()
    for target in "$static_target" "$narrow_target"; do
        standard_library "$target" && targets+=("--target=$target")
    done
    ((${#targets[@]} == 0)) || cargo check --quiet --locked "${targets[@]}" "${libraries[@]/#/--package=}" --lib
}

# The tests of two widths, with the 32-bit program as the other side.
share_a_pool() {
    local program
    standard_library "$narrow_target" || return 0
    # Asked before, since a program that cannot be run is no reason to fail.
    program=$(cargo test --locked --no-run --target "$narrow_target" -p hythe-node --test it 2>&1 |
        tee /dev/stderr | sed -n 's/^ *Executable tests\/it\/main.rs (\(.*\))$/\1/p')
    [[ -x $program ]] || {
        echo "other-targets: there are no 32-bit tests: '$program'" >&2
        return 1
    }
    if ! "$program" --list >/dev/null 2>&1; then
        echo "SKIPPED (this kernel runs no 32-bit programs): a pool shared by i686 and x86-64" >&2
        return 0
    fi
    # Named like this, it is the program that `make test` has built.
    HYTHE_OTHER_WIDTH=$(realpath "$program") cargo test --quiet --locked --workspace --test it two_widths::
}

run_static() {
    local program=$target_directory/$static_target/debug/hythe
    standard_library "$static_target" || return 0
    CARGO_PROFILE_DEV_DEBUG=0 cargo build --quiet --locked --target "$static_target" -p hythe-cli
    if readelf --program-headers "$program" | grep -q INTERP; then
        echo "other-targets: $program wants a dynamic linker" >&2
        return 1
    fi
    HYTHE_STATIC_PROGRAM=$(realpath "$program") cargo test --quiet --locked -p hythe-cli --test it static_program::
}

case ${1-} in
check) check ;;
test)
    share_a_pool
    run_static
    ;;
*)
    echo "usage: $0 check|test" >&2
    exit 2
    ;;
esac
