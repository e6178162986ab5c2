#!/usr/bin/env bash
# Installs all of Hythe, or removes it again: `make install` and `make uninstall`; packaging/deb.sh
# calls it, too.
#
#   install.sh install BUILT BOARDS [AGENT]   BUILT: cargo's folder of programs and libraries
#                                             BOARDS: the folder of the boards' images
#                                             AGENT: the program hythe-hostd, if there is one
#   install.sh uninstall
#
# From the environment: PREFIX (/usr/local), LIBDIR (PREFIX/lib), DESTDIR, which is put before every
# path, and STRIP. PREFIX/share/hythe/installed lists what was installed, relative to PREFIX, with
# the directories that were made for it; `uninstall` removes these and nothing else. No file names
# the prefix, so it can be moved. Never builds anything.

set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
absolute() {
    realpath --canonicalize-missing --no-symlinks "$1"
}

prefix=$(absolute "${PREFIX:-/usr/local}")
LIBDIR=$(absolute "${LIBDIR:-$prefix/lib}")
export LIBDIR
destination=${DESTDIR:+$(absolute "$DESTDIR")}
target=$destination$prefix
list=share/hythe/installed

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

usage() {
    echo "usage: [PREFIX=…] [LIBDIR=…] [DESTDIR=…] $0 install BUILT BOARDS [AGENT] | uninstall" >&2
    exit 2
}

# Everything below $work, as it will be below $destination.
stage() {
    local built=$1 boards=$2 agent=$3 below=$work$prefix
    [[ -x $built/hythe && -x $built/hythe-bench && -f $built/libhythe_shm.so ]] ||
        fail "$built has no hythe, hythe-bench or libhythe_shm.so; build them first"
    DESTDIR=$work "$root/bindings/c/install.sh" "$prefix" "$built"
    DESTDIR=$work "$root/bindings/pvm/install.sh" "$prefix" "$built"
    install -D -m 755 -t "$below/bin" "$built/hythe" "$built/hythe-bench"
    install -D -m 755 -t "$work$LIBDIR" "$built/libhythe_shm.so"
    stage_boards "$boards" "$below/share/hythe/boards"
    stage_generated "$built/hythe" "$below/share"
    stage_documents "$below/share/doc/hythe"
    [[ ! $agent ]] || stage_agent "$agent" "$below"
    strip_programs "$below"
}

# The images, and the decoders for this host that `hythe demo` and `hythe play` compare with; without
# objects and logs of compilers.
stage_boards() {
    local boards=$1 to=$2 manifest board
    for manifest in "$boards"/*/board.toml; do
        [[ -f $manifest ]] ||
            fail "there are no images in $boards; \`cargo xtask boards\` builds them"
        board=$(basename "$(dirname "$manifest")")
        install -D -m 644 -t "$to/$board" "$manifest"
        # A guest's image is loaded flat; the program it was made from is for debugging.
        find "$boards/$board" -maxdepth 1 -name '*.elf' ! -name '*-guest.elf' \
            -exec install -m 755 -t "$to/$board" {} +
        find "$boards/$board" -maxdepth 1 -name '*-guest.bin' \
            -exec install -m 644 -t "$to/$board" {} +
        strip_images "$manifest" "$to/$board"
    done
    install -D -m 755 -t "$to/reference" "$boards/reference/decode-reference"
    install -D -m 755 -t "$to/host" "$boards/host/host-player"
    "${STRIP:-strip}" "$to/reference/decode-reference" "$to/host/host-player"
}

# Each with the tools that its board was compiled with. strip_images MANIFEST FOLDER
strip_images() {
    local tools
    tools=$(sed -n 's/^prefix = "\(.*\)"/\1/p' "$1")
    find "$2" -name '*.elf' -exec "${tools}strip" {} +
}

# What the command itself writes.
stage_generated() {
    local hythe=$1 share=$2
    local bash=$share/bash-completion/completions zsh=$share/zsh/site-functions
    local fish=$share/fish/vendor_completions.d
    "$hythe" man "$share/man/man1" >/dev/null
    mkdir -p "$bash" "$zsh" "$fish"
    "$hythe" completions bash >"$bash/hythe"
    "$hythe" completions zsh >"$zsh/_hythe"
    "$hythe" completions fish >"$fish/hythe.fish"
}

stage_documents() {
    local to=$1
    install -D -m 644 -t "$to" "$root"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT}
    install -D -m 644 -t "$to/guide" "$root"/docs/guide/*
    install -D -m 644 -t "$to/examples" "$root"/examples/c/*.c
}

# Where systemd looks for units of users below any prefix, also `$HOME/.local`.
stage_agent() {
    install -D -m 755 "$1" "$2/bin/hythe-hostd"
    install -D -m 644 -t "$2/share/systemd/user" "$root/packaging/systemd/user/hythe-hostd.service"
    # Those of the system it looks for here.
    install -D -m 644 -t "$2/lib/systemd/system" "$root/packaging/systemd/hythe-wire@.service"
}

strip_programs() {
    local strip=${STRIP:-strip}
    "$strip" "$1"/bin/*
    "$strip" --strip-unneeded "$work$LIBDIR"/libhythe{.so.*.*.*,_shm.so} \
        "$work$LIBDIR"/hythe-pvm/*.so.3
    "$strip" --strip-debug "$work$LIBDIR/libhythe.a" "$work$LIBDIR"/hythe-pvm/*.a
}

# Copies what was staged, and writes the list.
copy() {
    local name made=()
    [[ ! -f $target/$list ]] || uninstall
    [[ -d $target ]] || made=(./)
    mkdir -p "$target"
    cd "$work$prefix"
    while IFS= read -r name; do
        [[ ! -d $target/$name ]] || continue
        # Not with the file's directory made on the way: each one that is made is in the list.
        mkdir -p "$target/$name"
        chmod 755 "$target/$name"
        made+=("$name/")
    done < <(staged -type d)
    while IFS= read -r name; do
        # A program that runs cannot be written into, but another can take its name.
        cp --no-dereference --preserve=mode,links --remove-destination "$name" "$target/$name"
    done < <(staged ! -type d)
    {
        ((${#made[@]} == 0)) || printf '%s\n' "${made[@]}"
        echo "$list"
        staged ! -type d
    } >"$target/$list"
    chmod 644 "$target/$list"
    echo "installed into $target"
}

# Paths relative to the prefix, parents before children. LIBDIR may be elsewhere. staged TEST…
staged() {
    find "$work" -mindepth 1 "$@" -printf '%p\n' | sort |
        xargs -r -d '\n' realpath --no-symlinks --relative-to="$work$prefix"
}

uninstall() {
    local names name
    [[ -f $target/$list ]] ||
        fail "$target/$list is missing: nothing is known to be installed there"
    mapfile -t names <"$target/$list"
    for name in "${names[@]}"; do
        [[ $name == */ ]] || rm -f "$target/$name"
    done
    # Children before parents; what others have put into them meanwhile keeps them.
    printf '%s\n' "${names[@]}" | sed -n '/\/$/p' | sort -r | while IFS= read -r name; do
        # A name that ends with `.` cannot be removed.
        rmdir --ignore-fail-on-non-empty "$(absolute "$target/$name")" 2>/dev/null || true
    done
}

case ${1-}:$# in
install:[34])
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    stage "$(realpath "$2")" "$(realpath "$3")" "${4:+$(realpath "$4")}"
    copy
    ;;
uninstall:1)
    uninstall
    echo "removed from $target"
    ;;
*) usage ;;
esac
