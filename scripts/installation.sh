#!/usr/bin/env bash
# Installs Hythe as its users do, and uses it where it was put. `make test-slow` calls both parts.
#
#   installation.sh moved      `make install`, moved, used where it is then; `make uninstall`
#   installation.sh packages   `make deb`, installed, used, removed in a bare Debian (root)
#
# PROFILE=release takes longer and tests what users get; else programs are built as the tests are.
# Everything that is made is in one temporary directory, and in mount and process namespaces that
# end with this script. Never touches the system's directories.

set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
profile=${PROFILE:-dev}
# shellcheck source=SCRIPTDIR/apt-root.sh
source scripts/apt-root.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HYTHE_ROOT=$work/pools
# The images beside the program are to be found, and not others.
unset HYTHE_BOARDS

fail() {
    printf 'installation: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf 'SKIPPED (%s): packages in a bare Debian\n' "$*" >&2
    exit 0
}

# wants TEXT COMMAND…: the command succeeds, and prints the text somewhere.
wants() {
    local text=$1 output
    shift
    output=$("$@") || fail "$* failed"
    [[ $output == *"$text"* ]] || fail "$* printed no '$text' but: $output"
}

moved() {
    local first=$work/first/usr now=$work/now
    make --no-print-directory install PROFILE="$profile" PREFIX="$first"
    mv "$first" "$now"
    mkdir "$HYTHE_ROOT"
    check_commands "$now"
    check_agent "$now"
    check_library "$now"
    check_firmware "$now"
    check_files "$now" "$first"
    check_links "$now/share/doc/hythe"
    check_units
    # What others have there stays.
    touch "$now/share/man/man1/other.1"
    make --no-print-directory uninstall PREFIX="$now"
    [[ $(cd "$now" && find . ! -type d) == ./share/man/man1/other.1 ]] ||
        fail "left over: $(find "$now")"
    rm "$now/share/man/man1/other.1"
    # With DESTDIR, once more and over itself: nothing but the directories above the prefix is left.
    local again=(PREFIX=/opt/hythe DESTDIR="$work/stage")
    make --no-print-directory install PROFILE="$profile" "${again[@]}" >/dev/null
    # As if it were of an earlier release.
    mkdir "$work/stage/opt/hythe/old"
    touch "$work/stage/opt/hythe/old/file"
    printf 'old/\nold/file\n' >>"$work/stage/opt/hythe/share/hythe/installed"
    start_meanwhile "$work/stage/opt/hythe/bin/hythe" \
        make --no-print-directory install PROFILE="$profile" "${again[@]}"
    [[ ! -e $work/stage/opt/hythe/old ]] || fail "what only an earlier release had is left"
    wants "hythe " "$work/stage/opt/hythe/bin/hythe" --version
    make --no-print-directory uninstall "${again[@]}"
    [[ $(cd "$work/stage" && find . | sort | tr '\n' ' ') == ". ./opt " ]] ||
        fail "left over: $(find "$work/stage")"
    echo "installation: works where it was moved to"
}

# Starts the program again and again while the command runs: it is there each time. start_meanwhile
# PROGRAM COMMAND…
start_meanwhile() {
    local program=$1
    shift
    rm -f "$work/over"
    (
        until [[ -e $work/over ]]; do
            "$program" --version >/dev/null 2>&1 || echo missing
        done >"$work/failures"
    ) &
    "$@" >/dev/null
    touch "$work/over"
    wait "$!"
    [[ ! -s $work/failures ]] ||
        fail "$(wc -l <"$work/failures") starts of $program failed while it was installed"
}

check_commands() {
    local now=$1 boards
    wants "hythe " "$now/bin/hythe" --version
    boards=$("$now/bin/hythe" core boards)
    grep -q '^hosted .* runs here ' <<<"$boards" || fail "the board hosted does not run: $boards"
    # Not any other images that happen to be here.
    wants "$now/bin/../share/hythe/boards" "$now/bin/hythe" --json core boards
    wants "board hosted" "$now/bin/hythe" doctor
    wants ipc "$now/bin/hythe-bench" --help
    [[ -f $now/share/man/man1/hythe-pool-create.1 ]] || fail "there is no hythe-pool-create.1"
    if command -v man >/dev/null; then
        wants CHANNEL man -l "$now/share/man/man1/hythe-pub.1"
    fi
    bash -n "$now/share/bash-completion/completions/hythe"
    grep -q '^#compdef hythe' "$now/share/zsh/site-functions/_hythe" ||
        fail "zsh would not load _hythe"
    grep -q '^complete -c hythe' "$now/share/fish/vendor_completions.d/hythe.fish" ||
        fail "fish has no completions"
}

# The agent, where `make hosts` or a test has built it: found beside the command, with a unit that
# systemd understands.
check_agent() {
    local now=$1 unit=$1/share/systemd/user/hythe-hostd.service
    if [[ ! -e $now/bin/hythe-hostd ]]; then
        [[ ! -e $unit ]] || fail "there is a unit for no agent"
        echo 'SKIPPED (`make hosts` has not built it): the agent' >&2
        return
    fi
    HYTHE_HOSTS_DIR=$work/hosts wants "this host is desk" \
        env -u HYTHE_HOSTD "$now/bin/hythe" host init --name desk
    HYTHE_HOSTS_DIR=$work/hosts wants "none runs" env -u HYTHE_HOSTD "$now/bin/hythe" doctor
    [[ -f $unit ]] || fail "there is no $unit"
    if command -v systemd-analyze >/dev/null; then
        mkdir "$work/unit"
        # systemd looks for programs in a list of its own, where this one is not.
        sed "s,^ExecStart=,&$now/bin/," "$unit" >"$work/unit/hythe-hostd.service"
        XDG_RUNTIME_DIR=$work/unit systemd-analyze verify --user --man=no \
            "$work/unit/hythe-hostd.service" || fail "systemd refuses $unit"
    fi
}

check_library() {
    local now=$1 flags
    export PKG_CONFIG_PATH=$now/lib/pkgconfig
    read -ra flags < <(pkg-config --cflags --libs hythe)
    cc -o "$work/events" "$now/share/doc/hythe/examples/events.c" "${flags[@]}"
    wants window env LD_LIBRARY_PATH="$now/lib" "$work/events" moved
    cmake -S bindings/c/tests/cmake -B "$work/cmake" \
        -DCMAKE_PREFIX_PATH="$now" -DEXAMPLES="$root/examples/c" >/dev/null
    cmake --build "$work/cmake" >/dev/null
    wants window "$work/cmake/events" cmake
    wants libhythe.so. readelf -d "$now/lib/libhythe.so"
    "$root/scripts/check-hardening.sh" rust "$now"/bin/* "$now"/lib/libhythe.so \
        "$now/lib/libhythe_shm.so" "$now"/lib/hythe-pvm/*.so.3
    "$root/scripts/check-hardening.sh" c "$now"/share/hythe/boards/{hosted/*.elf,reference/*,host/*}
    # There is no core here, and it says so.
    wants 'hythe_shm: there is no pool' env LD_PRELOAD="$now/lib/libhythe_shm.so" HYTHE_SHM=all \
        HYTHE_SHM_LOG=1 HYTHE_ROOT="$work" bash -c '! ipcmk -M 1 2>&1'
}

# The guide's program for a core of its own, by make and by CMake, from what is installed alone.
check_firmware() {
    local now=$1
    cp -r "$now/share/doc/hythe/examples/firmware" "$work/firmware"
    make --no-print-directory -C "$work/firmware" HYTHE="$now/share/hythe/rtos" \
        CFLAGS='-O2 -Wall -Wextra -Werror' >/dev/null
    cmake -S "$work/firmware" -B "$work/firmware/build" -DCMAKE_PREFIX_PATH="$now" >/dev/null
    cmake --build "$work/firmware/build" >/dev/null
    export HYTHE_BOARDS=$work/firmware/boards
    "$now/bin/hythe" core run mine --app firmware --detach >/dev/null
    "$now/bin/hythe" sub shouts --count 1 >"$work/heard" &
    until "$now/bin/hythe" list | grep 'attached: hythe sub' >/dev/null; do sleep 0.05; done
    echo hello from make | "$now/bin/hythe" pub words >/dev/null
    wait "$!"
    "$now/bin/hythe" core stop mine >/dev/null
    grep -q 'HELLO FROM MAKE' "$work/heard" || fail "the firmware replied $(<"$work/heard")"
    "$now/bin/hythe" pool remove default >/dev/null
    unset HYTHE_BOARDS
}

# Units take away what their programs do not need: systemd gives them at most 3 of 10, or what the
# unit's own comment has a reason for.
check_units() {
    command -v systemd-analyze >/dev/null || return 0
    local unit tenths
    while IFS= read -r unit; do
        case $unit in
        */hythe-preload-record.service) tenths=34 ;;
        */user/hythe-hostd.service) tenths=66 ;;
        *) tenths=30 ;;
        esac
        systemd-analyze security --offline=yes --threshold="$tenths" --no-pager "$unit" \
            >"$work/unit.txt" || fail "$unit is exposed: $(tail -n 1 "$work/unit.txt")"
    done < <(find "$root/packaging/systemd" -name '*.service')
}

# Links of installed documents lead to what is installed.
check_links() {
    local document link
    while IFS= read -r document; do
        while IFS= read -r link; do
            [[ $link == *:* || ${link%%#*} == "" ||
                -e $(dirname "$document")/${link%%#*} ]] || fail "$document: $link leads nowhere"
        done < <(grep -o ']([^)]*' "$document" | cut -c 3-)
    done < <(find "$1" -name '*.md')
}

# Stripped, and free of the directories it was built in and installed into first. check_files NOW
# FIRST
check_files() {
    local now=$1 first=$2 file sections
    while IFS= read -r file; do
        # Not with a pipe: grep would leave, and readelf fail.
        sections=$(readelf --section-headers --wide "$file" 2>/dev/null || true)
        [[ $sections != *.debug_info* ]] || fail "$file is not stripped"
    done < <(find "$now" -type f ! -name '*.1' ! -name '*.md')
    if grep -rIlF -e "$root" -e "$first" "$now"; then
        fail "these files name directories of the build"
    fi
    # Programs in Rust do where they are built with the libraries of the tests.
    local built=("$now/share/hythe/boards")
    [[ $profile == dev ]] || built=("$now")
    if grep -rlF -e "$root/" -e "${CARGO_HOME:-$HOME/.cargo}/registry" "${built[@]}"; then
        fail "these programs name directories of the build"
    fi
}

packages() {
    local mirror
    ((EUID == 0)) || skip "needs root, for a system of its own"
    command -v apt-get >/dev/null || skip "needs Debian's apt"
    # It fails where one of the places for sources is missing, and still prints what the others
    # name.
    mirror=$(debian_mirror || true)
    # The release of this machine: the packages are linked with its C library.
    source /etc/os-release
    [[ $mirror ]] || skip "this machine's sources name no mirror of Debian"
    fetch_mmdebstrap || skip "Debian's mmdebstrap cannot be fetched"
    # Packed without compressing: the libraries of the tests' profile are large.
    DPKG_DEB_COMPRESSOR_TYPE=none make --no-print-directory deb PROFILE="$profile" debs="$work/debs"
    cp examples/c/publish_subscribe.c scripts/installation-packages.sh \
        scripts/check-hardening.sh "$work/debs"
    # Its root directory is in the temporary directory, too.
    TMPDIR=$work in_namespaces "$work/mmdebstrap/usr/bin/mmdebstrap" --quiet --mode=root \
        --variant=apt --format=null \
        --customize-hook="copy-in $work/debs /" \
        --customize-hook="chroot \"\$1\" bash /debs/installation-packages.sh" \
        "$VERSION_CODENAME" /dev/null "$mirror"
    echo "installation: the packages work in a bare Debian, and leave nothing behind"
}

# A script of Perl, not installed for a test.
fetch_mmdebstrap() {
    apt_root "$work" "$(dpkg --print-architecture)" /var/lib/dpkg/status
    mkdir "$work/mmdebstrap"
    (cd "$work/mmdebstrap" &&
        APT_CONFIG=$(echo "$work"/apt/*/apt.conf) apt-get -qq download mmdebstrap &&
        dpkg-deb -x mmdebstrap_*.deb .)
}

# Processes and mounts end with the command, however it ends.
in_namespaces() {
    unshare --mount --pid --fork --kill-child --mount-proc "$@"
}

case ${1-} in
moved | packages) "$1" ;;
*)
    echo "usage: $0 moved|packages" >&2
    exit 2
    ;;
esac
