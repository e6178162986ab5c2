#!/usr/bin/env bash
# Boots Debian 12 in QEMU with systemd-logind, and sees what docs/guide/services.md says: a service
# of a user loses its pool when that user's last session ends, says so, and starts anew; with
# lingering it keeps it.
#
# Called by `make test-services` as root: services-debian.sh DIRECTORY HYTHE. The system is fetched
# once, as scripts/boot-debian.sh does (some minutes, 700 MB), and kept in DIRECTORY; the boot takes
# one or two. Mounts and processes are in name spaces of their own, and end with this script.

set -euo pipefail
if [[ ! ${BOOT_DEBIAN_INSIDE-} ]]; then
    ((EUID == 0)) || { echo "services-debian: needs root: it builds a system" >&2; exit 1; }
    BOOT_DEBIAN_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi
# shellcheck source=scripts/boot-debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/boot-debian.sh" "$1" "$2" /dev/null
packages+=,libpam-systemd,dbus

# What runs as the first user of the guest, camera, and what happens when that user logs in and out.
install_services() {
    local root=$work/root
    install -D "$hythe" "$root/usr/bin/hythe"
    install -D "$packaging/hythe.tmpfiles.conf" "$root/usr/lib/tmpfiles.d/hythe.conf"
    echo "/dev/vda / ext4 errors=remount-ro 0 1" >"$root/etc/fstab"
    chroot "$root" useradd --create-home camera
    cat >"$root/etc/systemd/system/pictures.service" <<'END_OF_UNIT'
[Service]
User=camera
ExecStart=/usr/bin/hythe sub pictures --timeout 3600
Restart=on-failure
[Install]
WantedBy=multi-user.target
END_OF_UNIT
    cat >"$root/usr/local/sbin/observe" <<'END_OF_SCRIPT'
#!/bin/sh
# Tells on the second serial line what became of the service, and ends the machine.
show() { echo "== $1"; shift; "$@" 2>&1; }
service_pid() { systemctl show --property=MainPID --value pictures; }
# That logind removes what a user has takes it UserStopDelaySec, 10 s.
log_in_and_out() { su -l camera -c "$1"; sleep 20; }
exec >/dev/ttyS1
show folder stat --format '%U %a' /dev/shm/hythe
log_in_and_out 'echo hello >m; hythe pub pictures m; loginctl --no-legend list-sessions >sessions'
show sessions cat /home/camera/sessions
first=$(service_pid)
log_in_and_out true
second=$(service_pid)
show removed sh -c "test $first != $second && echo restarted"
show said journalctl --no-pager --boot --output cat --unit pictures
show meet su camera -c 'cd; hythe pub pictures m'
show doctor su camera -c 'hythe doctor'
loginctl enable-linger camera
sleep 1
third=$(service_pid)
log_in_and_out true
show kept sh -c "test $third = $(service_pid) && echo kept"
show doctor-lingering su camera -c 'hythe doctor'
show folder-later stat --format '%U %a' /dev/shm/hythe
show end uptime
systemctl poweroff
END_OF_SCRIPT
    chmod 755 "$root/usr/local/sbin/observe"
    cat >"$root/etc/systemd/system/observe.service" <<'END_OF_UNIT'
[Unit]
After=multi-user.target
[Service]
ExecStart=/usr/local/sbin/observe
[Install]
WantedBy=multi-user.target
END_OF_UNIT
    chroot "$root" systemctl enable --quiet observe pictures
    cp -L "$root/initrd.img" "$work/initrd.plain"
    cp -L "$root/vmlinuz" "$work/kernel"
}

is_up() {
    told_has end ""
}

services() {
    need qemu-system-x86_64 mkfs.ext4 chroot
    if [[ ! -d $base ]]; then
        need mmdebstrap
        fetch
    fi
    rm -rf "$work"
    mkdir -p "$work"
    cp -a "$base" "$work/root"
    install_services
    make_image
    boot services plain ""
    check "tmpfiles.d makes the folder of all pools" told_has folder "^root 1777$"
    check "logind knew the session" told_has sessions camera
    check "the pool went with the last session" told_has removed "^restarted$"
    check "the service said so" told_has said "pool .*default"
    check "whoever comes later meets it" told_has meet "1 delivered"
    check "doctor warns" told_has doctor "RemoveIPC=yes"
    check "with lingering the pool stays" told_has kept "^kept$"
    check "doctor says so" told_has doctor-lingering "lingers"
    check "the folder stays root's" told_has folder-later "^root 1777$"
    ((failed == 0)) || fail "something failed; what was said is in $work"
    rm -rf "$work"
}

services
