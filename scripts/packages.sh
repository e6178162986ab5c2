# What is installed, and what has to be; sourced by scripts that need programs of Debian.
# shellcheck shell=bash
#
# install_packages WHO PACKAGE...: leaves alone what is there, installs the rest as root, and otherwise says what to install and ends the
# script with 1. On other systems it says what to have, and checks nothing.

missing_packages() {
    local installed package
    # It fails if one of the names is unknown, but still lists the others.
    installed=" $(dpkg-query --show --showformat '${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true)"
    for package in "$@"; do
        [[ $installed == *" installed=$package "* ]] || printf '%s\n' "$package"
    done
}

install_packages() {
    local who=$1 missing
    shift
    if ! command -v dpkg-query >/dev/null; then
        echo "$who: this is not Debian; nothing is checked, have the equivalents of: $*" >&2
        return
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    if ((EUID != 0)); then
        printf '%s: these packages are missing; run this, then try again:\n\n  sudo apt-get install --no-install-recommends %s\n\n' \
            "$who" "${missing[*]}" >&2
        exit 1
    fi
    echo "$who: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Another apt may be at work on a machine that has just booted: wait for its lock, but not for ever.
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=120)
    "${apt[@]}" update </dev/null
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}
