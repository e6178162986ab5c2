#!/usr/bin/env bash
# Fetches a VLC that opens descriptions and rtsp:// URLs into a directory of its own (the argument): Debian 12's and 13's are built without
# the module for both, live555; Debian 14's (forky) has it again. `vlc` is in its folder bin.
#
# Called by `make test-media`. Packages are unpacked, not installed, together with the libraries that they need, the C library included
# (about 90 MB to fetch, 270 MB unpacked): it needs no root and changes nothing of the machine. VLC and live555 are under the (L)GPL: they
# are fetched and run, and nothing of them is linked with or given out. What is there is left alone.

set -euo pipefail
directory=$(mkdir -p "$1" && cd "$1" && pwd)
# shellcheck source=SCRIPTDIR/apt-root.sh
source "$(dirname "${BASH_SOURCE[0]}")/apt-root.sh"
release=${2:-forky}
stamp=$directory/fetched
# Renewed when the fetching changes, not with every line of this script.
recipe="1 $release $directory"
# One reason per package.
packages=(
    vlc-bin                 # vlc
    vlc-plugin-base         # codecs, multiplexers, outputs
    vlc-plugin-access-extra # live555
)

fail() {
    printf 'vlc-live555: %s\n' "$*" >&2
    exit 1
}

fetch() {
    command -v apt-get >/dev/null || fail "this is not Debian; have a VLC with live555, and its path in HYTHE_VLC"
    [[ $(dpkg --print-architecture) == amd64 ]] || fail "it is fetched for amd64 only; have a VLC with live555, and its path in HYTHE_VLC"
    echo "vlc-live555: fetching VLC of Debian $release (about 90 MB)"
    rm -rf "${directory:?}"/{apt,system,bin} "$stamp"
    mkdir -p "$directory/bin"
    apt_unpack "$directory" "$release" "${packages[@]}" ||
        fail "the packages ${packages[*]} of Debian $release cannot be fetched (see $directory/apt/amd64/update.log); have a VLC with live555, and its path in HYTHE_VLC"
    offer
    rm -rf "${directory:?}/apt"
    echo "$recipe" >"$stamp"
}

# With the libraries that came with it: this machine's are older.
offer() {
    local system=$directory/system
    local libraries=$system/usr/lib/x86_64-linux-gnu
    local run="$libraries/ld-linux-x86-64.so.2 --library-path $libraries:$libraries/vlc:$libraries/pulseaudio"
    [[ -e $libraries/vlc/plugins/access/liblive555_plugin.so ]] || fail "VLC of Debian $release has no module live555; name a release that has it"
    # Else each start looks at all modules.
    $run "$libraries/vlc/vlc-cache-gen" "$libraries/vlc/plugins" || fail "VLC of Debian $release does not run here"
    # It refuses to run as root. As nobody it could not read what is root's; in a namespace of its own it is root under another number.
    cat >"$directory/bin/vlc" <<EOF
#!/bin/sh
as=
[ "\$(id -u)" != 0 ] || as="unshare --user --map-user=1000 --map-group=1000"
exec \$as $run $system/usr/bin/vlc "\$@"
EOF
    chmod +x "$directory/bin/vlc"
    "$directory/bin/vlc" --version >/dev/null 2>&1 || fail "$directory/bin/vlc does not run here"
}

# Who has one needs no other.
[[ -z ${HYTHE_VLC-} ]] || exit 0
[[ -f $stamp && $(<"$stamp") == "$recipe" ]] || fetch
