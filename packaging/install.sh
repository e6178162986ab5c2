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
# Behind the name of a file that is to take another's place.
new=.hythe-new

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
    local built=$1 boards=$2 agent=$3 below=$work$prefix program
    local programs=("$built"/hythe{,-bench,-core,-demo,-hosts,-jobs,-latency,-media,-play,-preload,-report})
    for program in "${programs[@]}"; do
        [[ -x $program ]] || fail "there is no $program; build it first"
    done
    [[ -f $built/libhythe_shm.so ]] || fail "$built has no libhythe_shm.so; build it first"
    DESTDIR=$work "$root/bindings/c/install.sh" "$prefix" "$built"
    DESTDIR=$work "$root/bindings/pvm/install.sh" "$prefix" "$built"
    install -D -m 755 -t "$below/bin" "${programs[@]}"
    install -D -m 755 -t "$work$LIBDIR" "$built/libhythe_shm.so"
    stage_boards "$boards" "$below/share/hythe/boards"
    stage_generated "$built/hythe" "$below/share"
    stage_documents "$below/share/doc/hythe"
    stage_rtos "$below/share"
    install -D -m 644 "$root/packaging/hythe.tmpfiles.conf" "$below/lib/tmpfiles.d/hythe.conf"
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
    local to=$1 document guide
    install -D -m 644 -t "$to" "$root"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT}
    install -D -m 644 -t "$to/guide" "$root"/docs/guide/*
    install -D -m 644 -t "$to/examples" "$root"/examples/c/*.c
    install -D -m 644 -t "$to/examples/firmware" "$root"/examples/firmware/*
    install -m 644 -t "$to" "$root"/docs/*.svg
    for document in README.md CHANGELOG.md; do
        keep_links "$to" "$root/$document" "$to/$document"
    done
    for guide in "$root"/docs/guide/*.md; do
        keep_links "$to" "$guide" "$to/guide/$(basename "$guide")"
    done
}

# Links of a document lead to what is installed below $1, where that is; those to the rest of the
# sources become text that names it. keep_links FOLDER SOURCE DOCUMENT
keep_links() {
    local to=$1 source=$2 document=$3 link path installed pattern
    while IFS= read -r link; do
        path=${link%%#*}
        [[ $path && $link != *:* ]] || continue
        pattern=${link//./\\.}
        path=$(realpath --canonicalize-missing --relative-to="$root" "$(dirname "$source")/$path")
        installed=$to/${path#docs/}
        if [[ -e $installed ]]; then
            installed=$(realpath --relative-to="$(dirname "$document")" "$installed")
            sed -i "s|](${pattern%%#*}\([#)]\)|]($installed\1|g" "$document"
        else
            sed -i "s|!\?\[\([^]]*\)\]($pattern)|\1 (\`$path\` in the sources)|g" "$document"
        fi
    done < <(grep -o ']([^)]*' "$source" | cut -c 3- | sort -u)
}

# The library for programs on RTOS cores, which is compiled with each of them.
stage_rtos() {
    local share=$1 folder
    for folder in include src port port/bare port/freertos port/posix; do
        find "$root/rtos/$folder" -maxdepth 1 -name '*.[ch]' \
            -exec install -D -m 644 -t "$share/hythe/rtos/$folder" {} +
    done
    install -D -m 644 -t "$share/cmake/hythe-rt" "$root/packaging/cmake/hythe-rtConfig.cmake"
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

# Copies what was staged over what is there, and writes the list. Each file is there at any moment,
# old or new: programs are started meanwhile. What only an earlier installation had goes last.
copy() {
    local name before=() made=()
    [[ ! -f $target/$list ]] || mapfile -t before <"$target/$list"
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
    # Those that an earlier installation made are of this one, too.
    for name in "${before[@]}"; do
        [[ $name != */ ]] || made+=("$name")
    done
    # Before the first file is there: one that is cut off here can be removed, too.
    mkdir -p "$(dirname "$target/$list")"
    {
        ((${#made[@]} == 0)) || printf '%s\n' "${made[@]}"
        echo "$list"
        staged ! -type d
        ((${#before[@]} == 0)) || printf '%s\n' "${before[@]}" | grep -v '/$' || true
    } | awk '!seen[$0]++' >"$target/$list$new"
    chmod 644 "$target/$list$new"
    mv -fT "$target/$list$new" "$target/$list"
    while IFS= read -r name; do
        cp --no-dereference --preserve=mode,links --remove-destination "$name" "$target/$name$new"
        mv -fT "$target/$name$new" "$target/$name"
    done < <(staged ! -type d)
    remove_others
    echo "installed into $target"
}

# Removes what the list has and was not staged, also from the list.
remove_others() {
    local name
    staged -type d | sed 's,$,/,' | cat - <(echo "$list" && staged ! -type d) >"$work/staged"
    grep -vxFf "$work/staged" "$target/$list" >"$work/others" || true
    while IFS= read -r name; do
        [[ $name == */ ]] || rm -f "$target/$name"
    done <"$work/others"
    remove_directories "$work/others"
    # Directories of others that are still there are in the list: `uninstall` tries again.
    while IFS= read -r name; do
        [[ $name == */ && -d $target/$name ]] || echo "$name"
    done <"$work/others" >"$work/gone"
    grep -vxFf "$work/gone" "$target/$list" >"$target/$list$new" || true
    chmod 644 "$target/$list$new"
    mv -fT "$target/$list$new" "$target/$list"
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
        # One that was cut off may have left a file beside it.
        [[ $name == */ ]] || rm -f "$target/$name" "$target/$name$new"
    done
    remove_directories <(printf '%s\n' "${names[@]}")
}

# Those of a list. Children before parents; what others have put into them meanwhile keeps them.
remove_directories() {
    sed -n '/\/$/p' "$1" | sort -r | while IFS= read -r name; do
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
