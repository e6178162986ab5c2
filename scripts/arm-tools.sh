#!/usr/bin/env bash
# Fetches what building and running for Arm needs, and unpacks it into a directory of its own (the argument).
#
# Called by `scripts/arm.sh`. Everything is a Debian package from this machine's own sources: a compiler, the standard library
# for the host and for both targets in the same version, linkers with their C libraries, and emulators. Packages are
# unpacked, not installed: it needs no root, and changes nothing outside the directory. Once it is there, a second run does
# nothing.

set -euo pipefail
directory=$(mkdir -p "$1" && cd "$1" && pwd)
script=$(sha256sum "${BASH_SOURCE[0]}")
stamp=$directory/unpacked

# One reason per package; what they depend on comes with them.
packages=(
    rustc-web                 # the only compiler here whose standard library Debian has for other machines, new enough
    gcc-arm-linux-gnueabihf   # links for armhf, and compiles the C library's tests
    libc6-dev-armhf-cross     # what it links to
    gcc-aarch64-linux-gnu     # the same for arm64
    libc6-dev-arm64-cross
    qemu-user                 # runs programs of both
)

# A mirror can serve an index of one architecture that its signature does not fit, for days, while the packages themselves
# are whole (seen with armhf). Then a package is taken by these checksums. That of arm64 is from a signed index; that of armhf
# is from the unsound one and from the package itself: compare it with a signed index where you find one.
declare -A checksums=(
    [libstd-rust-web-dev_1.96.0+dfsg1-1~deb12u2_armhf.deb]=b9f9dd1d03a903680f918cb2bba00a2a3d76558545d5e6a8061072ab461bb989
    [libstd-rust-web-dev_1.96.0+dfsg1-1~deb12u2_arm64.deb]=02419380801b9f61391294823659b17b90f7a863ca3bbccb9140d2f0f8a2c910
)

# shellcheck source=SCRIPTDIR/apt-root.sh
source "$(dirname "${BASH_SOURCE[0]}")/apt-root.sh"

fail() {
    printf 'arm: %s\n' "$*" >&2
    exit 1
}

# What this machine has installed counts as there, except for the packages that must be unpacked whole.
installed_without_ours() {
    awk -v RS= -v ORS='\n\n' \
        '!/^Package: (.*-(arm-linux-gnueabihf|aarch64-linux-gnu)(-base)?|.*-(armhf|arm64)-cross|gcc-12-cross-base|qemu-user|rustc-web|libstd-rust-web.*)\n/' \
        /var/lib/dpkg/status
}

fetch_native() {
    local native
    native=$(dpkg --print-architecture)
    [[ $native == amd64 ]] || fail "this machine is $native; the Arm tests are cross-built from amd64 only"
    apt_root "$directory" "$native" <(installed_without_ours)
    export APT_CONFIG=$directory/apt/$native/apt.conf
    apt-get -qq -y --no-install-recommends --download-only install "${packages[@]}" >/dev/null ||
        fail "the packages cannot be fetched: ${packages[*]} (see $directory/apt/$native/update.log)"
    cp "$directory/apt/$native"/cache/archives/*.deb "$directory/packages/"
    unset APT_CONFIG
}

# The standard library for a target, in the compiler's version: fetch_standard_library ARCHITECTURE
fetch_standard_library() {
    local name=libstd-rust-web-dev native=$directory/apt/amd64/apt.conf version file uri
    version=$(APT_CONFIG=$native apt-cache show --no-all-versions rustc-web | sed -n 's/^Version: //p')
    apt_root "$directory" "$1" /dev/null
    (cd "$directory/packages" && APT_CONFIG=$directory/apt/$1/apt.conf apt-get -qq download "$name=$version" 2>/dev/null) && return
    file=${name}_${version}_$1.deb
    [[ ${checksums[$file]:-} ]] ||
        fail "the package index for $1 has no $name $version (see $directory/apt/$1/update.log), and no checksum of $file is kept here"
    echo "arm: the package index for $1 is not usable; taking $file by its checksum"
    uri=$(APT_CONFIG=$native apt-get download --print-uris "$name=$version" | cut -d"'" -f2)
    APT_CONFIG=$native /usr/lib/apt/apt-helper download-file \
        "${uri%_amd64.deb}_$1.deb" "$directory/packages/$file" "SHA256:${checksums[$file]}" >/dev/null ||
        fail "$file could not be fetched"
}

unpack() {
    local package
    for package in "$directory"/packages/*.deb; do
        dpkg-deb -x "$package" "$directory/system"
    done
    # The compiler needs its own libraries; what it starts finds them the same way.
    mkdir -p "$directory/bin"
    cat >"$directory/bin/rustc" <<EOF
#!/bin/sh
export LD_LIBRARY_PATH=$directory/system/usr/lib/x86_64-linux-gnu
exec $directory/system/usr/bin/rustc "\$@"
EOF
    chmod +x "$directory/bin/rustc"
}

# Renewed whenever this script changes or the directory was moved.
[[ -e $stamp && $(<"$stamp") == "$script $directory" ]] && exit
command -v apt-get >/dev/null || fail "this is not Debian; the Arm tests need its packages"
echo "arm: fetching compiler, linkers and emulators (about 250 MB)"
rm -rf "${directory:?}"/{apt,packages,system,bin} "$stamp"
mkdir -p "$directory"/{packages,system}
fetch_native
fetch_standard_library armhf
fetch_standard_library arm64
unpack
rm -rf "${directory:?}"/{apt,packages}
echo "$script $directory" >"$stamp"
