#!/usr/bin/env bash
# Prepares a Debian machine for building and testing Hythe: packages, the demo's recording, the movie of `hythe bench core --player`,
# the board images, the emulated board.
#
# Called by `make setup`, and through it by every other target that needs something prepared. What is there is left
# alone: a second run checks and builds nothing. Never installs Rust, and never installs anything unless run as root.

set -euo pipefail
cd "$(dirname "$0")/.."

# Relative paths in CARGO_TARGET_DIR count from here, as they do for cargo.
target=${CARGO_TARGET_DIR:-target}
recording=$target/demo/spoken.mp3
movie=$target/demo/film.mp4
boards_stamp=$target/boards/.built

# One reason per package.
packages=(
    build-essential      # the linker for Rust, gcc and make for the C library
    pkg-config           # build scripts of crates
    clang                # the C library's second compiler
    libclang-rt-dev      # clang's sanitizers, which clang only recommends
    clang-format         # the layout of C files, in `make check`
    valgrind             # runs programs with the C library, in its tests
    nanopb               # C of .proto files, for the example of calls
    libnanopb-dev        # its library for this machine
    cmake                # finds the installed C library, as its users do
    lld                  # links preload-init for other machines
    gcc-arm-none-eabi    # images for Cortex-M boards
    gcc-aarch64-linux-gnu  # for Cortex-A boards
    gcc-riscv64-unknown-elf  # for RISC-V cores
    qemu-system-arm      # runs the Arm boards
    qemu-system-misc     # runs the RISC-V board
    qemu-user            # runs preload-init for other machines
    ffmpeg               # encodes the demo's recording, receives its RTP
    alsa-utils           # spoken recordings, the demo's input
    iproute2             # network namespaces for tests
    qemu-system-x86      # the emulated board of the storage experiment
    mtd-utils            # images of its flash
    e2fsprogs            # images of its disk
    cpio                 # its initramfs
    xz-utils             # unpacks its kernel
    stress-ng            # uses System V segments hard, in a test of those that a core sees
    xvfb                 # a display without a screen, for the player's window
    libsdl2-2.0-0        # opens that window
    squashfs-tools       # images laid out in the order of a pack, in a test
    pvm                  # what programs for PVM are compared with
    pvm-dev              # its header
    pvm-examples         # such programs
    tablix2              # another
    netpipe-pvm          # another
)

# shellcheck source=SCRIPTDIR/packages.sh
source scripts/packages.sh

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

check_rust() {
    command -v cargo >/dev/null ||
        fail "cargo is missing; install rustup from https://rustup.rs (it follows rust-toolchain.toml) and open a new shell"
}

# Speech is what an ear judges easily, and ALSA's test recordings are on every Debian: about eleven seconds.
encode_recording() {
    [[ -s $recording ]] && return
    echo "setup: encoding $recording"
    local folder=/usr/share/sounds/alsa name inputs=()
    for name in Front_{Left,Center,Right} Side_{Left,Right} Rear_{Left,Center,Right}; do
        [[ -r $folder/$name.wav ]] || fail "$folder/$name.wav is missing; reinstall alsa-utils"
        inputs+=(-i "$folder/$name.wav")
    done
    mkdir -p "${recording%/*}"
    # Under another name until it is whole: an interrupted run must not leave half a recording behind.
    local unfinished=$recording.unfinished
    ffmpeg -nostdin -loglevel error -y "${inputs[@]}" -filter_complex "concat=n=$((${#inputs[@]} / 2)):v=0:a=1" \
        -codec:a libmp3lame -ar 44100 -ac 2 -b:a 128k -f mp3 "$unfinished" ||
        fail "ffmpeg could not encode the recording"
    local seconds
    seconds=$(ffprobe -loglevel error -show_entries format=duration -of csv=p=0 "$unfinished")
    ((${seconds%.*} >= 10)) || fail "the recording has $seconds s, the demo needs 10"
    mv "$unfinished" "$recording"
}

# Long enough that one frame in a thousand is seen over a few rounds.
encode_movie() {
    [[ -s $movie ]] && return
    echo "setup: encoding $movie"
    scripts/encode-movie.sh "$movie" 10 || fail "ffmpeg could not encode the movie"
}

# The images follow their sources: `cargo xtask boards` is asked again once something it reads is newer.
build_boards() {
    if [[ -e $boards_stamp ]]; then
        local changed
        changed=$(find rtos xtask/src -type f -newer "$boards_stamp" -print -quit)
        [[ $changed ]] || return 0
    fi
    echo "setup: building the board images"
    mkdir -p "${boards_stamp%/*}"
    # Dated before the build: a source that changes meanwhile must count as newer.
    touch "$boards_stamp.started"
    cargo xtask boards || fail "cargo xtask boards failed"
    mv "$boards_stamp.started" "$boards_stamp"
}

# Two kinds of machines are told that they go without; its test then says that it is left out.
prepare_guest() {
    if ! command -v apt-get >/dev/null || [[ $(uname -m) != x86_64 ]]; then
        echo "setup: the emulated board of the storage experiment is prepared on Debian for x86-64 only" >&2
        return
    fi
    scripts/guest.sh "$target/guest"
}

check_rust
install_packages setup "${packages[@]}"
encode_recording
encode_movie
build_boards
prepare_guest
