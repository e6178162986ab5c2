#!/usr/bin/env bash
# Runs `make test` again and again, to find the test that fails once: that is a defect, of the
# product or of the test.
#
#   calm.sh            all that follows: ten runs of `make test`, two hours on an idle machine
#   calm.sh idle [N]   N runs (6) one after the other
#   calm.sh busy [N]   N runs (3) beside four busy loops for each CPU, and two processes that fill
#                      and read memory
#   calm.sh other [N]  N runs (1) as another user with another locale, time zone, umask, TMPDIR
#                      and host name (root)
#
# Runs continue after a failure. What failed is listed at the end, and the output of each run is in
# target/calm. Nothing is left running: load, user and names end with the run that they are for.

set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
logs=$target/calm
mkdir -p "$logs"
failed=()

# run NAME COMMAND…
run() {
    local name=$1 started=$EPOCHSECONDS
    shift
    if "$@" >"$logs/$name" 2>&1 </dev/null; then
        printf '%-10s passed %5d s\n' "$name" $((EPOCHSECONDS - started))
    else
        failed+=("$name")
        printf '%-10s FAILED %5d s\n' "$name" $((EPOCHSECONDS - started))
        sed -n '/^FAILED  /,/^ok  /p' "$logs/$name" | sed '/^ok  /d; s/^/    /'
    fi
}

idle() {
    local round
    for ((round = 1; round <= ${1:-6}; round++)); do
        run "idle-$round" make --no-print-directory test
    done
}

# The load ends with this function, also where that is interrupted: its processes are killed with
# their parent.
busy() {
    local round loops=()
    for ((round = 0; round < 4 * $(nproc); round++)); do
        setpriv --pdeathsig KILL sh -c 'while :; do :; done' &
        loops+=($!)
    done
    setpriv --pdeathsig INT stress-ng --quiet --vm 2 --vm-bytes 10% &
    loops+=($!)
    for ((round = 1; round <= ${1:-3}; round++)); do
        run "busy-$round" make --no-print-directory test
    done
    kill "${loops[@]}"
    wait "${loops[@]}" 2>/dev/null || true
}

# In a clone of the user's own, with copies of what cargo has fetched, below one directory that is
# removed afterwards.
other() {
    local round work user=54321
    if ((EUID != 0)); then
        echo "SKIPPED (not root): as another user" >&2
        return
    fi
    make --no-print-directory setup >"$logs/setup" 2>&1
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # as it is now
    trap "rm -rf '$work'" EXIT
    chmod 755 "$work"
    git clone --quiet . "$work/hythe"
    mkdir "$work/cargo" "$work/toolchain" "$work/home" "$work/files"
    cp -r "${CARGO_HOME:-$HOME/.cargo}/registry" "$work/cargo/"
    chown -R "$user:$user" "$work"
    for ((round = 1; round <= ${1:-1}; round++)); do
        run "other-$round" unshare --mount --uts -- \
            bash -c "$(declare -f as_other); as_other \"\$@\"" bash "$work" "$user"
    done
    rm -rf "$work"
    trap - EXIT
}

# as_other DIRECTORY USER, in namespaces of its own
as_other() {
    local work=$1 user=$2
    # By itself: what rustup has below root's home is no other user's.
    mount --bind "$(rustc --print sysroot)" "$work/toolchain"
    # Another file system, without blanks in its path: PVM's console and pkg-config take none.
    mount -t tmpfs -o mode=1777 files "$work/files"
    hostname another-machine.example
    cd "$work/hythe"
    umask 077
    exec setpriv --reuid="$user" --regid="$user" --clear-groups env -i \
        PATH="$work/toolchain/bin:/usr/local/bin:/usr/bin:/bin" HOME="$work/home" \
        CARGO_HOME="$work/cargo" \
        LC_ALL=de_DE.UTF-8 TZ=Asia/Kathmandu TMPDIR="$work/files" \
        make --no-print-directory test
}

case ${1-all} in
idle | busy | other) "$@" ;;
all)
    idle
    busy
    other
    ;;
*)
    echo "usage: $0 [idle|busy|other [RUNS]]" >&2
    exit 2
    ;;
esac
((${#failed[@]} == 0)) || {
    echo "failed: ${failed[*]}; see $logs" >&2
    exit 1
}
