#!/usr/bin/env bash
# Has the programs that `make test-latency` needs besides Xen: cyclictest, which it measures beside, and a browser for pages of results.
#
# Called by `make test-latency` only: nothing else needs it. What is there is left alone. Installs as root,
# and otherwise says what to install.

set -euo pipefail
# shellcheck source=SCRIPTDIR/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# One reason per package.
packages=(
    chromium # draws what hythe report writes
    rt-tests # cyclictest
)

install_packages latency-tools "${packages[@]}"
