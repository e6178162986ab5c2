#!/usr/bin/env bash
# Installs the packages beside it, uses them and purges them, in a Debian that
# scripts/installation.sh has made for it and throws away. Never run on a system that is to be kept.

set -euo pipefail
cd "$(dirname "$0")"
export DEBIAN_FRONTEND=noninteractive HYTHE_ROOT=/run/hythe-test
apt=(apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0)

fail() {
    printf 'installation-packages: %s\n' "$*" >&2
    exit 1
}

files() {
    # Caches and logs of apt, dpkg and ldconfig are not the packages'.
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run \
        -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt \
        -o -path /debs \) -prune -o -print | sort
}

# What a program in C needs; not the packages under test, so that removing these must leave all of
# it.
"${apt[@]}" install gcc libc6-dev pkg-config >/dev/null
files >/debs/before

"${apt[@]}" install ./*.deb >/dev/null
mapfile -t names < <(dpkg-query --show --showformat '${Package}\n' 'hythe*' 'libhythe*')
damaged=$(dpkg --verify "${names[@]}")
[[ -z $damaged ]] || fail "not as packed: $damaged"
hythe --version
hythe core boards
mkdir "$HYTHE_ROOT"

# Built as Debian builds its own. gcc has brought readelf.
mapfile -t libraries < <(find /usr/lib/*/ -name 'libhythe*.so.*.*.*' -o -name 'libhythe_shm.so' \
    -o -path '*/hythe-pvm/*.so.3')
programs=(/usr/bin/hythe*)
boards=/usr/share/hythe/boards
./check-hardening.sh rust "${programs[@]}" "${libraries[@]}"
./check-hardening.sh c "$boards"/hosted/*.elf "$boards"/reference/* "$boards"/host/*

# Two processes, and then a program in C in place of one.
hythe pool create mixed --size 16M
hythe --pool mixed sub greetings --count 1 >/debs/heard &
while ! hythe --pool mixed list --json | grep -q greetings; do sleep 0.05; done
echo "from a package" | hythe --pool mixed pub greetings --lines
wait "$!"
grep -q "from a package" /debs/heard || fail "hythe sub printed: $(</debs/heard)"

# Linked with either library, the one talks to the other.
read -ra flags < <(pkg-config --cflags --libs hythe)
gcc -o /debs/shared publish_subscribe.c "${flags[@]}"
read -ra flags < <(pkg-config --static --cflags --libs hythe | sed 's/-lhythe/-l:libhythe.a/')
gcc -o /debs/static publish_subscribe.c "${flags[@]}"
/debs/shared subscribe mixed calls 3 >/debs/heard &
/debs/static publish mixed calls 3
wait "$!"
[[ $(wc -l </debs/heard) == 3 ]] || fail "the program in C printed: $(</debs/heard)"

# The agent, where its package was made.
if [[ " ${names[*]} " == *" hythe-hostd "* ]]; then
    HYTHE_HOSTS_DIR=$HYTHE_ROOT/hosts hythe host init --name desk
    [[ -f /usr/lib/systemd/user/hythe-hostd.service ]] || fail "there is no unit for the agent"
fi

"${apt[@]}" purge "${names[@]}" >/dev/null
rm -r "$HYTHE_ROOT"
hash -r
! command -v hythe >/dev/null || fail "hythe is still there"
files | diff /debs/before - || fail "the packages left these behind"
