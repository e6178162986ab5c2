#!/usr/bin/env bash
# Debian packages of what packaging/install.sh installs: hythe, libhythe0.1 (named after the soname),
# libhythe-dev, hythe-pvm, and hythe-hostd if there is an agent.
#
#   deb.sh BUILT BOARDS OUT [AGENT]   BUILT, BOARDS, AGENT as for install.sh; OUT gets the packages
#
# `make deb` calls it. Needs dpkg-dev. The architecture is this machine's, the version Cargo.toml's,
# and each package depends on what dpkg-shlibdeps finds. DEBFULLNAME and DEBEMAIL name the
# maintainer. Each file is in exactly one package: one that fits none is an error. Never builds a
# program, and never installs anything.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
if (($# != 3 && $# != 4)); then
    echo "usage: $0 BUILT BOARDS OUT [AGENT]" >&2
    exit 2
fi
built=$(realpath "$1") boards=$(realpath "$2") agent=${4:+$(realpath "$4")}
mkdir -p "$3"
out=$(realpath "$3")

cargo_version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
# A pre-release sorts before its release.
version=${cargo_version/-/\~}
architecture=$(dpkg --print-architecture)
libraries=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
maintainer="${DEBFULLNAME:-The Hythe developers} <${DEBEMAIL:-hythe@localhost.localdomain}>"
# The same sources give the same packages. dpkg-deb reads it as well.
[[ ${SOURCE_DATE_EPOCH-} ]] ||
    SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
all=$work/all

fail() {
    printf 'deb.sh: %s\n' "$*" >&2
    exit 1
}

# take PACKAGE PATH…: moves paths of the installation into a package. Patterns count from the
# installation.
take() {
    local package=$1 path
    shift
    cd "$all"
    for path in "$@"; do
        [[ -e $path || -L $path ]] || fail "nothing is installed as $path"
        mkdir -p "$work/$package/$(dirname "$path")"
        mv "$path" "$work/$package/$path"
    done
    cd "$root"
}

# take_as PACKAGE PATH NEW-PATH: one path, to where Debian has it.
take_as() {
    mkdir -p "$work/$1/$(dirname "$3")"
    mv "$all/$2" "$work/$1/$3"
}

distribute() {
    cd "$all"
    local shared=("$libraries"/libhythe.so.*)
    cd "$root"
    take "$runtime" "${shared[@]}"
    take hythe-pvm "$libraries"/{hythe-pvm,pkgconfig/hythe-pvm.pc} usr/include/hythe-pvm
    chmod 644 "$work/hythe-pvm/$libraries"/hythe-pvm/*.so.3
    # Debian's libraries are not executable.
    chmod 644 "$work/$runtime/$libraries"/libhythe.so.*.*.* "$all/$libraries/libhythe_shm.so"
    take libhythe-dev "$libraries"/{libhythe.so,libhythe.a,pkgconfig,cmake} usr/include
    take libhythe-dev usr/share/man/man3 usr/share/cmake usr/share/hythe/rtos
    take_as libhythe-dev usr/share/doc/hythe/examples usr/share/doc/libhythe-dev/examples
    # Debian has the terms in `copyright`, and changes of packages in another format.
    rm "$all"/usr/share/doc/hythe/{LICENSE-APACHE,LICENSE-MIT,CHANGELOG.md}
    sed -i 's/\[\([^]]*\)\](\(LICENSE-[A-Z]*\|CHANGELOG\.md\))/\1/g' "$all/usr/share/doc/hythe/README.md"
    rm "$all/usr/share/hythe/installed"
    if [[ $agent ]]; then
        take hythe-hostd usr/bin/hythe-hostd usr/lib/systemd/system
        take_as hythe-hostd usr/share/systemd/user usr/lib/systemd/user
        rmdir "$all/usr/share/systemd"
    fi
    take hythe usr/lib/tmpfiles.d
    take hythe usr/bin "$libraries/libhythe_shm.so" usr/share/{hythe,bash-completion,fish,doc/hythe,man/man1}
    take_as hythe usr/share/zsh/site-functions usr/share/zsh/vendor-completions
    find "$all" ! -type d | grep . >&2 && fail "these files are in no package"
    return 0
}

# What every package has beside its files: terms, changes, compressed manuals.
complete() {
    local package=$1
    local share=$work/$package/usr/share overrides=$package.lintian-overrides
    local documents=$share/doc/$package
    mkdir -p "$documents"
    cp "$work/copyright" "$documents/copyright"
    changelog | gzip -9n >"$documents/changelog.gz"
    [[ ! -d $share/man ]] || find "$share/man" -type f -exec gzip -9n {} +
    [[ ! -f $here/debian/$overrides ]] ||
        install -D -m 644 "$here/debian/$overrides" "$share/lintian/overrides/$package"
}

changelog() {
    cat <<END
hythe ($version) unstable; urgency=medium

  * See CHANGELOG.md in the sources.

 -- $maintainer  $(date -Ru -d "@$SOURCE_DATE_EPOCH")
END
}

# Terms of what the programs are linked from: crates of the commands and the library, C sources of
# the images.
components() {
    local tree=(cargo tree --edges normal --prefix none --format '{p}: {l}')
    {
        echo 'Standard library of Rust: MIT OR Apache-2.0'
        "${tree[@]}" -p hythe-cli -p 'hythe-*-command' -p hythe-demo -p hythe-play -p hythe-report
        "${tree[@]}" -p hythe-bench -p hythe-c -p hythe-shm -p hythe-libpvm3
        "${tree[@]}" --manifest-path rtos/vendor/Cargo.toml
        [[ ! $agent ]] || "${tree[@]}" --manifest-path hostd/Cargo.toml
    } | grep -Ev '^$| \((/|\*|proc-macro)' | sort -u
}

copyright() {
    cat <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: hythe
Comment: Programs and libraries contain these components, under their own terms:
$(components | sed 's/^/  /')

Files: *
Copyright: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y) The Hythe developers
License: Expat or Apache-2.0

License: Expat
$(sed '1,/^Copyright/d; s/^$/./; s/^/ /' LICENSE-MIT | sed '1{/^ \.$/d}')

License: Apache-2.0
 On Debian systems, the full text is in /usr/share/common-licenses/Apache-2.0.
END
}

# The packages that programs and libraries need. needs FILE…
needs() {
    mkdir -p "$work/needs/debian"
    : >"$work/needs/debian/control"
    cd "$work/needs"
    dpkg-shlibdeps -O "$@" 2>"$work/needs/log" | sed -n 's/^shlibs:Depends=//p' |
        grep . || fail "dpkg-shlibdeps: $(<"$work/needs/log")"
    cd "$root"
}

# pack PACKAGE, with the remaining fields on standard input.
pack() {
    local package=$1
    local folder=$work/$package
    local size
    complete "$package"
    size=$(du --apparent-size -k -s "$folder" | cut -f 1)
    mkdir -p "$folder/DEBIAN"
    {
        printf 'Package: %s\nSource: hythe\nVersion: %s\n' "$package" "$version"
        printf 'Architecture: %s\n' "$architecture"
        printf 'Maintainer: %s\nInstalled-Size: %s\nPriority: optional\n' "$maintainer" "$size"
        cat
    } >"$folder/DEBIAN/control"
    # A package may not have the field Source if it says the same as Package.
    [[ $package != hythe ]] || sed -i '/^Source:/d' "$folder/DEBIAN/control"
    (cd "$folder" && find usr -type f | sort | xargs -d '\n' md5sum >DEBIAN/md5sums)
    chmod -R u=rwX,go=rX "$folder"
    dpkg-deb --root-owner-group --build "$folder" "$out/${package}_${version}_$architecture.deb"
}

pack_runtime() {
    local soname=$1 depends
    depends=$(needs "$work/$runtime/$libraries/libhythe.so.$cargo_version")
    mkdir -p "$work/$runtime/DEBIAN"
    echo "libhythe ${soname#libhythe.so.} $runtime (>= $version)" >"$work/$runtime/DEBIAN/shlibs"
    echo 'activate-noawait ldconfig' >"$work/$runtime/DEBIAN/triggers"
    pack "$runtime" <<END
Section: libs
Multi-Arch: same
Depends: $depends
Description: channels between processes over shared memory - library
 Hythe keeps data in one pool of shared memory: a buffer is written once, and
 processes exchange 16-byte descriptors of it.
 .
 This package has the shared library for programs in C and C++.
END
}

pack_development() {
    pack libhythe-dev <<END
Section: libdevel
Multi-Arch: same
Depends: $runtime (= $version), libc6-dev | libc-dev
Suggests: hythe, pkg-config
Description: channels between processes over shared memory - development
 Hythe keeps data in one pool of shared memory: a buffer is written once, and
 processes exchange 16-byte descriptors of it.
 .
 This package has the header, the static library, files for pkg-config and
 CMake, the manual and examples, and the library for programs on RTOS cores, as
 sources.
END
}

pack_commands() {
    local depends
    depends=$(needs "$work"/hythe/usr/bin/* "$work/hythe/$libraries/libhythe_shm.so")
    install -D -m 755 "$here/debian/hythe.postinst" "$work/hythe/DEBIAN/postinst"
    pack hythe <<END
Section: net
Depends: $depends
Suggests: ffmpeg, qemu-system-arm, qemu-system-misc
Description: channels between processes, RTOS cores, storage and network
 Hythe keeps data in one pool of shared memory: a buffer is written once, and
 processes, cores with an RTOS, storage and the network exchange 16-byte
 descriptors of it.
 .
 This package has the command hythe, the benchmarks, images for emulated boards
 and for a FreeRTOS that runs as a Linux process, a library that gives System V
 programs memory that a core sees, manuals and completions for bash, zsh and
 fish.
END
}

pack_pvm() {
    pack hythe-pvm <<END
Section: net
Depends: hythe (= $version), $(needs "$work/hythe-pvm/$libraries"/hythe-pvm/*.so.3)
Description: channels between processes - programs for PVM
 Hythe keeps data in one pool of shared memory: a buffer is written once, and
 processes exchange 16-byte descriptors of it.
 .
 This package has libraries that are loaded in the place of PVM's, so that
 programs for PVM run by "hythe run --pvm" as they are, and what programs are
 compiled with.
END
}

pack_agent() {
    pack hythe-hostd <<END
Section: net
Depends: hythe (= $version), $(needs "$work/hythe-hostd/usr/bin/hythe-hostd")
Recommends: openssh-client
Description: channels between processes - agent that carries them between hosts
 Hythe keeps data in one pool of shared memory: a buffer is written once, and
 processes exchange 16-byte descriptors of it.
 .
 This package has the agent, one for each user and host, that carries the
 channels of a pool to other hosts over TLS, and its unit for systemd.
END
}

cd "$root"
PREFIX=/usr LIBDIR=/$libraries DESTDIR=$all "$here/install.sh" install "$built" "$boards" ${agent:+"$agent"} >/dev/null
soname=$(readlink "$all/$libraries/libhythe.so")
# As Debian names packages of libraries: a hyphen only after a digit.
runtime=${soname/.so./}
copyright >"$work/copyright"
distribute
pack_runtime "$soname"
pack_development
pack_commands
pack_pvm
[[ ! $agent ]] || pack_agent
