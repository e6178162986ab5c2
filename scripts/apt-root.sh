# An apt of one's own for one architecture, with this machine's sources; sourced by scripts that fetch packages which are not installed.
# shellcheck shell=bash
#
# apt_root DIRECTORY ARCHITECTURE STATUS-FILE [RELEASE]: makes it below DIRECTORY/apt/ARCHITECTURE; then APT_CONFIG=that/apt.conf
# apt-get download … works without root, and changes nothing of the machine. What the status file lists counts as installed; /dev/null:
# nothing. With a release (trixie), packages are that one's, from the mirror of Debian that this machine uses.
# Each architecture by itself, so that a broken index of one does not hide the packages of the others.

# The first archive of Debian's own in this machine's sources; that of security updates has another name.
debian_mirror() {
    local found
    found=$(sed -n 's,^[^#]*\(https\?://[^ ]*/debian\)/\?\( .*\)\?$,\1,p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -n 1p)
    echo "${found}"
}

apt_root() {
    local root=$1/apt/$2
    mkdir -p "$root"/state/lists/partial "$root"/cache/archives/partial
    cat "$3" >"$root/status"
    cat >"$root/apt.conf" <<EOF
Dir::State "$root/state";
Dir::State::status "$root/status";
Dir::Cache "$root/cache";
APT::Architecture "$2";
APT::Architectures { "$2"; };
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "3";
EOF
    if [[ ${4-} ]]; then
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(debian_mirror) $4 main" >"$root/sources.list"
        cat >>"$root/apt.conf" <<EOF
Dir::Etc::SourceList "$root/sources.list";
Dir::Etc::SourceParts "$root/none";
EOF
    fi
    # A source that has nothing for this architecture, or a bad index, is no reason to stop: what is missing shows later.
    APT_CONFIG=$root/apt.conf apt-get -qq update >"$root/update.log" 2>&1 || true
}
