#!/usr/bin/env bash
# The tests of the crates that handle shared memory, interpreted by Miri, which reports undefined
# behaviour, data races and pointers made of numbers.
#
# `miri.sh all` fetches a nightly compiler with Miri if need be, and builds Miri's standard library
# once (in ~/.cache/miri); `make miri` calls it. `miri.sh share` runs the shorter tests and fetches
# nothing; `make miri SHARE=1`, and so `.ci/run`, calls it. Where Miri cannot be had, that is said,
# and it is no failure. HYTHE_SEED chooses the random lives of the ledger's test.
#
# Programs stay isolated from the machine, with a clock of Miri's own: the same seed runs the same
# again. Tests that need files, signals or hours are left out by `cfg(miri)` where they stand.

set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
# Neither fetches a compiler unasked nor leaves a report of Miri's own failures in this folder.
export RUSTUP_AUTO_INSTALL=0 RUSTC_ICE=0
export HYTHE_SEED=${HYTHE_SEED:-1}
flags="-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check -Zmiri-env-forward=HYTHE_SEED"
# Schedules and stale values that each test with threads is tried with.
seeds=${SEEDS:-4}

skip() {
    echo "SKIPPED (Miri: $*)" >&2
    exit 0
}

miri_is_there() {
    cargo +nightly miri --version >/dev/null 2>&1
}

fetch() {
    if ! rustc +nightly --version >/dev/null 2>&1; then
        timeout 300 rustup toolchain install nightly --profile minimal >&2 || return
    fi
    timeout 300 rustup component add --toolchain nightly miri rust-src >&2
}

# Is the nightly compiler at least the project's? Else it refuses to build the crates.
is_new_enough() {
    local needed nightly
    needed=$(sed -n 's/^channel = "1\.\([0-9]*\)\..*/\1/p' rust-toolchain.toml)
    nightly=$(rustc +nightly --version | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
    ((nightly >= needed))
}

prepare() {
    command -v rustup >/dev/null || skip "there is no rustup"
    if ! miri_is_there; then
        [[ $1 == all ]] || skip "it is not installed; \`make miri\` fetches it"
        fetch || skip "no nightly compiler with it can be fetched; it needs a network"
        miri_is_there || skip "it does not start"
    fi
    is_new_enough ||
        skip "the nightly compiler is older than the project's; \`rustup update nightly\`"
    # Its standard library has dependencies, which a share does not fetch either.
    [[ $1 == all ]] || export CARGO_NET_OFFLINE=true
    timeout 600 cargo +nightly miri setup >&2 ||
        skip "its standard library could not be built; it needs a network once, \`make miri\`"
}

# run FLAGS ARGUMENT…: of `cargo test`.
run() {
    local own=$1
    shift
    echo "=== cargo +nightly miri test $*${own:+   $own}"
    MIRIFLAGS="$flags $own" cargo +nightly miri test --locked "$@"
}

# with_seeds COUNT: the tests with threads; elsewhere a seed changes addresses only. Quiet, since
# several run side by side.
with_seeds() {
    local many="-Zmiri-many-seeds=0..$1"
    run "$many" --quiet -p hythe-queue --test it threads::
    run "$many" --quiet -p hythe-pool --test it threads::
    run "$many" --quiet -p hythe-pool --test it two_threads
}

case ${1-} in
all)
    prepare all
    run "" --tests -p hythe-abi -p hythe-memory -p hythe-queue -p hythe-pool
    with_seeds "$seeds"
    ;;
share)
    prepare share
    run "" --lib -p hythe-abi -p hythe-memory -p hythe-queue
    # Tables of the usual size take longer than all other tests together.
    run "" --lib -p hythe-pool -- --skip core_rows
    run "" -p hythe-memory --test it edges::
    run "" -p hythe-queue --test it threads::
    run "" -p hythe-pool --test it threads::
    ;;
*)
    echo "usage: $0 all|share" >&2
    exit 2
    ;;
esac
