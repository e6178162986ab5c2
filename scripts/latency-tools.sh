#!/usr/bin/env bash
# Has the program that `make test-latency` measures beside: cyclictest.
#
# Called by `make test-latency` only: nothing else needs it. What is there is left alone. Installs as root,
# and otherwise says what to install.

set -euo pipefail
# shellcheck source=SCRIPTDIR/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# One reason per package.
packages=(
    rt-tests # cyclictest
)

install_packages latency-tools "${packages[@]}"
