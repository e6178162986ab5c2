#!/usr/bin/env bash
# Golden vectors, pool and node tests as armhf and arm64 programs, under emulation, and one pool shared between two widths.
#
# Called by `make arm`. The argument is a directory for tools and builds. `scripts/arm-tools.sh` fetches the tools at the first
# run; dependencies are those of Cargo.lock. Prints the time of each step. Emulation is not hardware: what it cannot show is
# said at the end, and in docs/adr/0014-arm-by-emulation.md.

set -euo pipefail
cd "$(dirname "$0")/.."
directory=$(mkdir -p "$1" && cd "$1" && pwd)
tools=$directory/tools
root=$tools/system
packages=(hythe-abi hythe-memory hythe-queue hythe-pool hythe-node)

# A step of this script, with its time: step NAME COMMAND...
step() {
    local name=$1 started=$EPOCHSECONDS
    shift
    "$@" || {
        echo "arm: FAILED: $name" >&2
        exit 1
    }
    summary+=$(printf '%-40s %4d s' "$name" "$((EPOCHSECONDS - started))")$'\n'
}

# Chooses what follows is built for: use RUST-TARGET GNU-TRIPLE EMULATOR
use() {
    local variable
    target=$1 triple=$2 runner="$root/usr/bin/$3 -L $root/usr/$2"
    variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")
    export "${variable}_LINKER=$root/usr/bin/$triple-gcc"
    # The linker scripts of the C library name absolute places, which are those inside the root.
    export "${variable}_RUSTFLAGS=-Clink-arg=-Wl,--sysroot=$root"
    export "${variable}_RUNNER=$runner"
}

# cargo for the chosen target, with the unpacked compiler: cross ARGUMENTS...
# Optimised a little: emulated, the tests take three times as long as the compiler then needs more. Only our crates, not
# what only tests use.
cross() {
    local package settings=()
    for package in "${packages[@]}"; do
        settings+=(--config "profile.dev.package.$package.opt-level=1")
    done
    env -u RUSTFLAGS RUSTC="$tools/bin/rustc" CARGO_TARGET_DIR="$directory/build" CARGO_INCREMENTAL=0 \
        CARGO_PROFILE_DEV_DEBUG=0 HYTHE_TEST_RUNNER="$runner" \
        cargo "$@" "${settings[@]}" --locked --target "$target" "${packages[@]/#/--package=}" --lib --tests
}

build() {
    cross test --no-run
}

run() {
    cross test --quiet
}

c_library() {
    LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu make --no-print-directory -C rtos test-cross BUILD="$directory/rtos" \
        CROSS="$triple" CROSS_CC="$root/usr/bin/$triple-gcc -Wl,--sysroot=$root" CROSS_RUNNER="$runner"
}

# From here on the tests of 64 bits find the 32-bit program.
offer_other_width() {
    local program
    program=$(cross test --no-run 2>&1 | sed -n 's/^ *Executable tests\/two_widths.rs (\(.*\))$/\1/p')
    [[ -x $program ]] || {
        echo "arm: there is no 32-bit two_widths: '$program'" >&2
        return 1
    }
    export HYTHE_OTHER_WIDTH="$runner $program"
}

# This machine's own build, native, with an emulated 32-bit peer.
share_with_native() {
    cargo test --quiet --locked -p hythe-node --test two_widths
}

summary=
step "tools" scripts/arm-tools.sh "$tools"
use armv7-unknown-linux-gnueabihf arm-linux-gnueabihf qemu-arm
step "armhf: build" build
step "armhf: tests" run
step "armhf: C library" c_library
step "armhf: the program for two widths" offer_other_width
step "x86-64 and armhf share a pool" share_with_native
use aarch64-unknown-linux-gnu aarch64-linux-gnu qemu-aarch64
step "arm64: build" build
step "arm64: tests, arm64 and armhf share a pool" run
step "arm64: C library" c_library

printf '\n%s\n' "$summary"
echo "Emulated by qemu-user on $(uname -m): it shows layouts, widths, alignment of types and system calls. It does NOT show the"
echo "memory ordering of real Arm cores (the emulator keeps the host's stronger order); the loom models are there for that."
