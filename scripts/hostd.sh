#!/usr/bin/env bash
# Builds and checks the agent `hythe-hostd`, whose package lies outside the workspace: hostd.sh build [OPTION...] | check.
#
# Called by `make hosts` and `make check`; CARGO_TARGET_DIR says where. `cargo xtask test --hosts` tests it. The lock
# file is what it says: nothing here changes it. Never installs anything.

set -euo pipefail
cd "$(dirname "$0")/../hostd"

task=${1:?build or check}
shift
case $task in
    build) cargo build --locked "$@" ;;
    check)
        cargo fmt --check
        # Those that take the place of others: no members, so the line above passes them over.
        rustfmt --check --edition 2024 no-public-roots/src/lib.rs tls-listener/src/lib.rs
        cargo clippy --locked --all-targets -- -D warnings
        RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --lib
        ;;
    *)
        echo "hostd.sh: $task is neither build nor check" >&2
        exit 2
        ;;
esac
