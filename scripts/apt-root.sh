# An apt of one's own for one architecture, with this machine's sources; sourced by scripts that fetch packages which are not installed.
# shellcheck shell=bash
#
# apt_root DIRECTORY ARCHITECTURE STATUS-FILE: makes it below DIRECTORY/apt/ARCHITECTURE; then APT_CONFIG=that/apt.conf apt-get download …
# works without root, and changes nothing of the machine. What the status file lists counts as installed; /dev/null: nothing.
# Each architecture by itself, so that a broken index of one does not hide the packages of the others.

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
    # A source that has nothing for this architecture, or a bad index, is no reason to stop: what is missing shows later.
    APT_CONFIG=$root/apt.conf apt-get -qq update >"$root/update.log" 2>&1 || true
}
