#!/usr/bin/env bash
# Installs the C library alone: install.sh PREFIX [FOLDER_OF_BUILT_LIBRARIES]. packaging/install.sh
# and the tests of the C library call it.
#
# Libraries, header, pkg-config file, CMake package, man page. DESTDIR is put before every path;
# LIBDIR chooses another place for libraries than PREFIX/lib. The files name each other by relative
# paths, so the prefix can be moved. Never builds or strips anything.

set -euo pipefail

if (($# < 1)); then
    echo "usage: install.sh PREFIX [FOLDER_OF_BUILT_LIBRARIES]" >&2
    exit 2
fi
prefix=$1
here=$(cd "$(dirname "$0")" && pwd)
built=${2:-$here/../../target/release}
libdir=${LIBDIR:-$prefix/lib}
stage=${DESTDIR:-}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
# As build.rs names it.
case $version in
0.*) soname=libhythe.so.$(cut -d . -f 1-2 <<<"$version") ;;
*) soname=libhythe.so.${version%%.*} ;;
esac

for library in libhythe_c.so libhythe_c.a; do
    if [[ ! -f $built/$library ]]; then
        echo "install.sh: $built/$library is missing; build it: cargo build --release -p hythe-c" >&2
        exit 1
    fi
done

# The way from $libdir/$1 back to the prefix.
prefix_from() {
    realpath --canonicalize-missing --no-symlinks --relative-to="$libdir/$1" "$prefix"
}

fill() {
    sed -e "s|@PREFIX_FROM_LIBDIR@|$(prefix_from .)|g" -e "s|@PREFIX_FROM_PKGCONFIG@|$(prefix_from pkgconfig)|g" \
        -e "s|@VERSION@|$version|g" -e "s|@SONAME@|$soname|g" "$here/$1" >"$stage$libdir/$2"
}

install -d "$stage$libdir/pkgconfig" "$stage$libdir/cmake/hythe" "$stage$prefix/include" "$stage$prefix/share/man/man3"
install -m 755 "$built/libhythe_c.so" "$stage$libdir/libhythe.so.$version"
ln -sfn "libhythe.so.$version" "$stage$libdir/$soname"
ln -sfn "$soname" "$stage$libdir/libhythe.so"
install -m 644 "$built/libhythe_c.a" "$stage$libdir/libhythe.a"
install -m 644 "$here/include/hythe.h" "$stage$prefix/include/hythe.h"
install -m 644 "$here/man/hythe.3" "$stage$prefix/share/man/man3/hythe.3"
fill hythe.pc.in pkgconfig/hythe.pc
fill cmake/hytheConfig.cmake.in cmake/hythe/hytheConfig.cmake
fill cmake/hytheConfigVersion.cmake.in cmake/hythe/hytheConfigVersion.cmake
