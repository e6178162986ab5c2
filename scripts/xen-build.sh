#!/usr/bin/env bash
# Builds Xen for arm64 with what Debian leaves out (`rtos/xen/xen.config`), from the source of Debian's package: the hypervisor alone,
# as the file `xen-built` in a directory (the first argument), and `xen-built.about`, a line on what it is.
#
# Called by `scripts/xen-tools.sh` with the version to build (the second argument); where no mirror has that source any more, the newest is
# taken that one has, and named. Xen is under the GPL: it is fetched, built and run, and nothing of it is linked with or given out.
# Once it is there, a second run does nothing.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
directory=$(mkdir -p "$1" && cd "$1" && pwd)
asked_version=$2
# shellcheck source=SCRIPTDIR/apt-root.sh
source scripts/apt-root.sh
fragment=rtos/xen/xen.config
work=$directory/build
log=$directory/build.log
stamp=$directory/built
# Renewed when the building changes, not with every line of this script.
recipe=1
# 40 s of one CPU.
limit_s=1200

fail() {
    printf 'xen-build: %s\n' "$*" >&2
    exit 1
}

settings() {
    grep '^[^#]' "$fragment"
}

# Sets `version`.
fetch() {
    rm -rf "${work:?}"
    mkdir -p "$work"
    : >"$log"
    apt_source_root "$work"
    export APT_CONFIG=$work/apt/source/apt.conf
    local others
    mapfile -t others < <(apt-cache showsrc xen 2>>"$log" | sed -n 's/^Version: //p' | sort -rV)
    for version in "$asked_version" "${others[@]}"; do
        if (cd "$work" && apt-get -qq source "xen=$version") >>"$log" 2>&1; then
            unset APT_CONFIG
            mv "$work"/xen-*/ "$work/source"
            return
        fi
    done
    fail "the source of Debian's package xen $asked_version cannot be fetched, nor that of another version (see $log and $APT_CONFIG)"
}

# Xen spins without a hint where it waits for another CPU. An emulator that counts instructions runs the CPUs in turns, and goes on with the
# same one then: Xen does not boot on two of most. Linux says `yield` in the same place.
patch_waiting() {
    local file=$work/source/xen/arch/arm/include/asm/processor.h
    sed -i 's|^#define cpu_relax() barrier().*|#define cpu_relax() asm volatile("yield" ::: "memory")|' "$file"
    grep -q '^#define cpu_relax() asm volatile("yield"' "$file" || fail "Xen $version has no cpu_relax() as expected in $file"
}

build() {
    # Who builds it, where and when is said in the binary: it shall be the same for all (the build ID is not: it is over paths, too).
    local line make=(
        timeout "$limit_s" make -C "$work/source/xen" -j "$(nproc)" XEN_TARGET_ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-
        XEN_WHOAMI=hythe XEN_DOMAIN=hythe XEN_BUILD_HOST=hythe "XEN_BUILD_DATE=$version" XEN_BUILD_TIME=
    )
    KCONFIG_ALLCONFIG=$PWD/$fragment "${make[@]}" alldefconfig >>"$log" 2>&1 || fail "Xen cannot be configured (see $log)"
    while read -r line; do
        grep -qxF "$line" "$work/source/xen/.config" || fail "Xen $version does not take $line of $fragment"
    done < <(settings)
    "${make[@]}" build >>"$log" 2>&1 || fail "Xen cannot be built, or not within $limit_s s (see $log)"
}

asked="$recipe $asked_version $(sha256sum <"$fragment")"
[[ -f $stamp && -f $directory/xen-built && -f $directory/xen-built.about && $(<"$stamp") == "$asked" ]] && exit
echo "xen-build: building Xen from Debian's source (5 MB; usually one minute, at most $((limit_s / 60)))"
fetch
patch_waiting
build
cp "$work/source/xen/xen" "$directory/xen-built"
printf "Xen %s, built from Debian's source with %s; who waits for another CPU yields\n" "$version" "$(settings | paste -sd ' ')" \
    >"$directory/xen-built.about"
rm -rf "${work:?}"
echo "$asked" >"$stamp"
echo "xen-build: built Xen $version in $SECONDS s"
[[ $version == "$asked_version" ]] || echo "xen-build: the source of $asked_version, Debian's binary, is on no mirror of this machine's"
