#!/usr/bin/env bash
# Has the program that `make test-latency` measures beside: cyclictest.
#
# Called by `make test-latency` only: nothing else needs it. What is there is left alone. Installs as root,
# and otherwise says what to install.

set -euo pipefail

# One reason per package.
packages=(
    rt-tests # cyclictest
)

command -v dpkg-query >/dev/null || {
    echo "latency-tools: this is not Debian; have the equivalents of: ${packages[*]}" >&2
    exit 0
}
installed=" $(dpkg-query --show --showformat '${db:Status-Status}=${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
    [[ $installed == *" installed=$package "* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
if ((EUID != 0)); then
    printf 'latency-tools: these packages are missing; run this, then try again:\n\n  sudo apt-get install --no-install-recommends %s\n\n' \
        "${missing[*]}" >&2
    exit 1
fi
echo "latency-tools: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -o DPkg::Lock::Timeout=120)
"${apt[@]}" update </dev/null
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
