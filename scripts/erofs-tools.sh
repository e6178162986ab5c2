#!/usr/bin/env bash
# Fetches erofs-utils of Debian 13 into a directory of its own (the argument): Debian 12's mkfs.erofs takes no tar archives. The programs are in
# its folder bin.
#
# Called by `make test-boot`. Packages are unpacked, not installed, together with the libraries that they need (about 10 MB): it needs no root
# and changes nothing of the machine. What is there is left alone.

set -euo pipefail
directory=$(mkdir -p "$1" && cd "$1" && pwd)
# shellcheck source=SCRIPTDIR/apt-root.sh
source "$(dirname "${BASH_SOURCE[0]}")/apt-root.sh"
release=${2:-trixie}
stamp=$directory/fetched
# Renewed when the fetching changes, not with every line of this script.
recipe="1 $release $directory"

fail() {
    printf 'erofs-tools: %s\n' "$*" >&2
    exit 1
}

fetch() {
    command -v apt-get >/dev/null || fail "this is not Debian; have mkfs.erofs, fsck.erofs and dump.erofs 1.8 or newer in PATH"
    [[ $(dpkg --print-architecture) == amd64 ]] || fail "they are fetched for amd64 only; have mkfs.erofs 1.8 or newer in PATH"
    echo "erofs-tools: fetching erofs-utils of Debian $release (about 10 MB)"
    rm -rf "${directory:?}"/{apt,system,bin} "$stamp"
    mkdir -p "$directory/bin"
    apt_unpack "$directory" "$release" erofs-utils || fail "erofs-utils cannot be fetched (see $directory/apt/amd64/update.log)"
    offer mkfs.erofs
    offer fsck.erofs
    offer dump.erofs
    rm -rf "${directory:?}/apt"
    echo "$recipe" >"$stamp"
}

# With the libraries that came with it: this machine's are older.
offer() {
    local system=$directory/system program
    program=$(find "$system/usr" -path "*bin/$1" | sed -n 1p)
    [[ $program ]] || fail "erofs-utils of $release has no $1"
    cat >"$directory/bin/$1" <<EOF
#!/bin/sh
exec $system/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path $system/usr/lib/x86_64-linux-gnu $program "\$@"
EOF
    chmod +x "$directory/bin/$1"
}

[[ -f $stamp && $(<"$stamp") == "$recipe" ]] || fetch
