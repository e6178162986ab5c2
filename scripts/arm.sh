#!/usr/bin/env bash
# Golden vectors, pool and node tests as armhf and arm64 programs, under emulation, one pool shared between two widths, messages of PVM
# between their data formats, and the tests of the storage hop on a kernel of 32 bits and on one with pages of 16 KiB.
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
kinds=(--lib --tests)
# Where the time of the tests is computing, and not waiting. Optimising the others takes longer than it saves.
optimised=(hythe-memory hythe-queue hythe-pool)
targets=(armv7-unknown-linux-gnueabihf aarch64-unknown-linux-gnu)
declare -A names=([armv7-unknown-linux-gnueabihf]=armhf [aarch64-unknown-linux-gnu]=arm64)
declare -A triples=([armv7-unknown-linux-gnueabihf]=arm-linux-gnueabihf [aarch64-unknown-linux-gnu]=aarch64-linux-gnu)
# The emulator tells a handler of SIGBUS the host's address of a fault, not the program's. For 32 bits the two differ by where
# it put the program's memory, and only the low half arrives: at a multiple of 4 GiB that is the program's address. For 64 bits
# it chooses 0 itself.
declare -A emulators=(
    [armv7-unknown-linux-gnueabihf]="$root/usr/bin/qemu-arm -B 0x100000000 -L $root/usr/arm-linux-gnueabihf"
    [aarch64-unknown-linux-gnu]="$root/usr/bin/qemu-aarch64 -L $root/usr/aarch64-linux-gnu"
)
# Each death takes a process, which costs a fifth of a second of CPU time to start emulated: fewer of them.
export HYTHE_KILL_SAMPLES=${HYTHE_KILL_SAMPLES:-6}
# Tests left out, with the reason; they run natively in `make test`, and nothing of a width depends on them.
declare -A left_out=(
    [sixty_four_publish_to_sixty_four_over_one_channel]="64 participants, 4,096 connections: minutes, emulated"
    [thousand_and_twenty_four_channels_carry_messages]="1,024 channels: minutes, emulated"
    [forked_child_may_join_by_itself]="QEMU 7.2 aborts when the forked child of a program with threads starts a thread"
    [second_recoverer_finishes_what_the_first_began]="thousands of deaths in one process; kill_sweep has them one by one"
    [both_sides_of_a_connection_may_die_while_they_leave_it]="thousands of deaths in one process; kill_sweep has them one by one"
)
# A test that ends a program on purpose is no reason for the emulator to write a core file into the working directory.
ulimit -c 0

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

# cargo with the unpacked compiler: cross SUBCOMMAND ARGUMENTS...
cross() {
    local package target variable settings=() variables=()
    for package in "${optimised[@]}"; do
        settings+=(--config "profile.dev.package.$package.opt-level=1")
    done
    for target in "${targets[@]}"; do
        variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")
        # The linker scripts of the C library name absolute places, which are those inside the root.
        variables+=(
            "${variable}_LINKER=$root/usr/bin/${triples[$target]}-gcc"
            "${variable}_RUSTFLAGS=-Clink-arg=-Wl,--sysroot=$root"
            "${variable}_RUNNER=${emulators[$target]}"
            "CC_${target//-/_}=$directory/c/${triples[$target]}-gcc"
            "AR_${target//-/_}=$directory/c/${triples[$target]}-ar"
        )
    done
    env -u RUSTFLAGS "${variables[@]}" RUSTC="$tools/bin/rustc" CARGO_TARGET_DIR="$directory/build" CARGO_INCREMENTAL=0 \
        CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_CODEGEN_UNITS=16 \
        cargo "$1" "${settings[@]}" --locked "${packages[@]/#/--package=}" "${kinds[@]}" "${@:2}"
}

# The unpacked compilers of C for build scripts, which have to find their own libraries.
prepare_c() {
    local triple name
    mkdir -p "$directory/c"
    for triple in "${triples[@]}"; do
        for name in "$triple"-{gcc,ar}; do
            printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/$name" \
                >"$directory/c/$name"
            chmod +x "$directory/c/$name"
        done
    done
}

# Both at once: what runs on this machine, as the macros of crates, is built only once, and all CPUs have work.
build() {
    cross test --no-run --quiet "${targets[@]/#/--target=}"
}

# The tests of one target: run TARGET
run() {
    local test skips=()
    for test in "${!left_out[@]}"; do
        skips+=("--skip=$test")
    done
    # The 32-bit program is no other width to its like. This function runs in a shell of its own.
    [[ $1 != "${targets[0]}" ]] || unset HYTHE_OTHER_WIDTH
    HYTHE_TEST_RUNNER="${emulators[$1]}" cross test --quiet --no-fail-fast --target "$1" -- "${skips[@]}"
}

# The tests of both targets at the same time: much of them is waiting. Each says what it has to say when it is done.
run_all() {
    local target pids=() outcome=0
    for target in "${targets[@]}"; do
        run "$target" >"$directory/${names[$target]}.log" 2>&1 &
        pids+=($!)
    done
    for target in "${targets[@]}"; do
        wait "${pids[0]}" || outcome=1
        pids=("${pids[@]:1}")
        printf '\n--- %s\n' "${names[$target]}"
        grep -v '^$' "$directory/${names[$target]}.log" || true
    done
    return "$outcome"
}

# The C library for one target: c_library TARGET
c_library() {
    local compiler=$root/usr/bin/${triples[$1]}-gcc
    LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu make --no-print-directory -C rtos test-cross BUILD="$directory/rtos" \
        CROSS="${triples[$1]}" CROSS_CC="$compiler -Wl,--sysroot=$root" CROSS_RUNNER="${emulators[$1]}"
}

# From here on the tests of 64 bits find the 32-bit program.
offer_other_width() {
    local target=${targets[0]} packages=(hythe-node) program
    program=$(cross test --no-run --target "$target" 2>&1 | sed -n 's/^ *Executable tests\/it\/main.rs (\(.*\))$/\1/p')
    [[ -x $program ]] || {
        echo "arm: there are no 32-bit tests: '$program'" >&2
        return 1
    }
    export HYTHE_OTHER_WIDTH="${emulators[$target]} $program"
}

# This machine's own build, native, with an emulated 32-bit peer. Named like this, it is the one that `make test` has built.
share_with_native() {
    cargo test --quiet --locked --workspace --test it two_widths::
}

# What native tasks of PVM's machine find. Named like this, it is what `make test` has built.
build_machine_of_pvm() {
    local library
    cargo build --quiet --locked -p hythe-cli -p hythe-jobs-command -p hythe-libpvm3 -p hythe-libgpvm3 || return
    mkdir -p "$directory/pvm/native"
    for library in libpvm3 libgpvm3; do
        ln -sfn "$built/$library.so" "$directory/pvm/native/$library.so.3" || return
    done
    cc -std=c99 -o "$directory/pvm/native/formats" -I bindings/pvm/include bindings/pvm/tests/formats.c -L "$built" -lpvm3
}

# Two tasks of one machine of PVM, a native and an emulated one, and which of them spawns the other: share_machine TARGET
share_machine() (
    target=$1 work=$directory/pvm/${names[$1]} packages=(hythe-libpvm3) kinds=(--lib)
    native=$directory/pvm/native/formats bytes=8
    [[ $target != arm* ]] || bytes=4
    cross build --quiet --target "$target" || exit
    mkdir -p "$work"
    ln -sfn "$directory/build/$target/debug/libpvm3.so" "$work/libpvm3.so.3" || exit
    "$directory/c/${triples[$target]}-gcc" -Wl,--sysroot="$root" -std=c99 -o "$work/formats" -I bindings/pvm/include \
        bindings/pvm/tests/formats.c "$work/libpvm3.so.3" || exit
    # A program to the kernel, as a task has to be.
    printf '#!/bin/sh\nexec %s -E LD_LIBRARY_PATH=%s %s "$@"\n' "${emulators[$target]}" "$work" "$work/formats" >"$work/emulated"
    chmod +x "$work/emulated"
    # Not below the target directory: a socket's path is short.
    HYTHE_ROOT=$(mktemp -d)
    trap 'rm -rf "$HYTHE_ROOT"' EXIT
    export HYTHE_ROOT HYTHE_PVM_LIBRARIES=$directory/pvm/native
    unset HYTHE_POOL
    exchange "$native" "$work/emulated" "long of 8 and $bytes bytes: 0 and 0 wrong" &&
        exchange "$work/emulated" "$native" "long of $bytes and 8 bytes: 0 and 0 wrong"
)

# exchange FIRST SPAWNED WANTED
exchange() {
    local said
    said=$(timeout 300 "$built/hythe" run --pvm -- "$1" "$2") || {
        printf '%s\narm: %s with %s: exit code %s\n' "$said" "$1" "$2" "$?" >&2
        return 1
    }
    printf '%s\n' "$said"
    [[ $said == "$3" ]]
}

# The storage hop on a kernel of this target. Under the emulation of processes its tests are of no use: the emulator itself touches the pages
# that it copies from: machine TARGET EMULATOR...
machine() {
    local target=$1 name=${names[$1]} packages=(hythe-sys hythe-preload) programs=() work=$directory/machines
    shift
    mapfile -t programs < <(cross test --no-run --target "$target" 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
    mkdir -p "$work/$name"
    packages=(hythe-preload)
    cross build --quiet --target "$target" --example recorded || return
    export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
    "$root/usr/bin/${triples[$target]}-gcc" -Wl,--sysroot="$root" -static -O1 -o "$work/$name/touch" crates/cli/tests/it/recorded/touch.c || return
    make --no-print-directory -C preload-init BUILD="$work/$name" CC="$root/usr/bin/${triples[$target]}-gcc" "$work/$name/preload-init" >/dev/null || return
    unset LD_LIBRARY_PATH
    HYTHE_ARM_LIBRARIES=$root/usr HYTHE_ARM_TEMPORARY=$directory/build/$target/tmp \
        scripts/arm-machines.sh "$work/$name" "$name" "$@" -- \
        "${programs[@]}" "$directory/build/$target/debug/examples/recorded" "$work/$name"/{touch,preload-init}
}

say_what_is_left_out() {
    local test
    echo "arm: left out under emulation:"
    echo "  most deaths of kill_processes: $HYTHE_KILL_SAMPLES per operation (HYTHE_KILL_SAMPLES sets it)"
    for test in "${!left_out[@]}"; do
        echo "  $test: ${left_out[$test]}"
    done
}

summary=
built=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)/debug
step "tools" scripts/arm-tools.sh "$tools"
prepare_c
step "build for armhf and arm64" build
step "the 32-bit program for two widths" offer_other_width
say_what_is_left_out
step "tests; arm64 and armhf share a pool" run_all
step "x86-64 and armhf share a pool" share_with_native
for target in "${targets[@]}"; do
    step "${names[$target]}: C library" c_library "$target"
done
step "the machine of PVM for x86-64" build_machine_of_pvm
for target in "${targets[@]}"; do
    step "x86-64 and ${names[$target]}: data of PVM" share_machine "$target"
done

step "the recorder on a kernel of 32 bits" machine "${targets[0]}" \
    qemu-system-arm -accel tcg -machine virt -cpu cortex-a15 -m 1G -smp 1
step "the recorder with pages of 16 KiB" machine "${targets[1]}" \
    qemu-system-aarch64 -accel tcg -machine virt -cpu max,pauth=off -m 1G -smp 1

printf '\n%s\n' "$summary"
echo "Emulated by qemu-user on $(uname -m): it shows layouts, widths, alignment of types and system calls. It does NOT show the"
echo "memory ordering of real Arm cores (the emulator keeps the host's stronger order); the loom models are there for that."
