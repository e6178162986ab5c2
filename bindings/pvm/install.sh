#!/usr/bin/env bash
# Installs the libraries for PVM's programs alone: install.sh PREFIX [FOLDER_OF_BUILT_LIBRARIES].
# packaging/install.sh calls it.
#
# All lies in folders of its own, LIBDIR/hythe-pvm and PREFIX/include/hythe-pvm, so that nobody
# finds it in the place of PVM's by chance; `hythe run --pvm` looks there. DESTDIR is put before
# every path; LIBDIR chooses another place for libraries than PREFIX/lib. The pkg-config file names
# the others by relative paths, so the prefix can be moved. Never builds or strips anything.

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

for library in lib{pvm3,gpvm3}.{so,a}; do
    if [[ ! -f $built/$library ]]; then
        build='cargo build --release -p hythe-libpvm3 -p hythe-libgpvm3'
        echo "install.sh: $built/$library is missing; build it: $build" >&2
        exit 1
    fi
done

folder=$stage$libdir/hythe-pvm
install -d "$folder" "$stage$libdir/pkgconfig" "$stage$prefix/include/hythe-pvm"
for name in libpvm3 libgpvm3; do
    install -m 755 "$built/$name.so" "$folder/$name.so.3"
    ln -sfn "$name.so.3" "$folder/$name.so"
    install -m 644 "$built/$name.a" "$folder/$name.a"
done
install -m 644 "$here/include/pvm3.h" "$stage$prefix/include/hythe-pvm/pvm3.h"
from_pkgconfig=$(realpath --canonicalize-missing --no-symlinks \
    --relative-to="$libdir/pkgconfig" "$prefix")
sed -e "s|@PREFIX_FROM_PKGCONFIG@|$from_pkgconfig|g" -e "s|@VERSION@|$version|g" \
    "$here/hythe-pvm.pc.in" >"$stage$libdir/pkgconfig/hythe-pvm.pc"
