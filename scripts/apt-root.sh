# An apt of one's own for one architecture, with this machine's sources; sourced by scripts that fetch packages which are not installed.
# shellcheck shell=bash
#
# apt_root DIRECTORY ARCHITECTURE STATUS-FILE [RELEASE]: makes it below DIRECTORY/apt/ARCHITECTURE; then APT_CONFIG=that/apt.conf
# apt-get download … works without root, and changes nothing of the machine. What the status file lists counts as installed; /dev/null:
# nothing. With a release (trixie), packages are that one's, from the mirror of Debian that this machine uses.
# Each architecture by itself, so that a broken index of one does not hide the packages of the others.
#
# apt_unpack DIRECTORY RELEASE PACKAGE…: fetches a release's packages for amd64 with everything that they need, the C library included, and
# unpacks them below DIRECTORY/system. Fails if one cannot be had: DIRECTORY/apt/amd64/update.log says why.
#
# apt_source_root DIRECTORY: an apt of one's own below DIRECTORY/apt/source for apt-get source …; this machine's sources are asked for source packages,
# which they usually do not name.

# The first archive of Debian's own in this machine's sources; that of security updates has another name. Without one nothing will be found.
debian_mirror() {
    sed -n 's,^[^#]*\(https\?://[^ ]*/debian\)/\?\( .*\)\?$,\1,p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -n 1p
}

apt_root() {
    local root=$1/apt/$2
    make_apt_root "$root" "$2" "$3"
    [[ -z ${4-} ]] || take_release "$root" "$4"
    update_apt_root "$root"
}

apt_unpack() {
    local directory=$1 release=$2 package
    shift 2
    # Nothing counts as installed.
    apt_root "$directory" amd64 /dev/null "$release"
    APT_CONFIG=$directory/apt/amd64/apt.conf apt-get -qq -y --no-install-recommends --download-only install "$@" \
        >/dev/null 2>>"$directory/apt/amd64/update.log" || return 1
    mkdir -p "$directory/system"
    for package in "$directory"/apt/amd64/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$directory/system" || return 1
    done
}

apt_source_root() {
    local root=$1/apt/source list
    make_apt_root "$root" "$(dpkg --print-architecture)" /dev/null
    mkdir -p "$root/sources"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        case $list in
        *.sources) sed -E 's/^Types:.*/Types: deb-src/' "$list" >"$root/sources/${list##*/}" ;;
        *.list) [[ ! -f $list ]] || sed -E 's/^deb([[:space:]])/deb-src\1/' "$list" >"$root/sources/${list##*/}" ;;
        esac
    done
    cat >>"$root/apt.conf" <<END
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$root/sources";
END
    update_apt_root "$root"
}

# Has an apt made before take its packages from one release of Debian only.
take_release() {
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(debian_mirror) $2 main" >"$1/sources.list"
    cat >>"$1/apt.conf" <<END
Dir::Etc::SourceList "$1/sources.list";
Dir::Etc::SourceParts "$1/none";
END
}

make_apt_root() {
    local root=$1
    mkdir -p "$root"/state/lists/partial "$root"/cache/archives/partial
    cat "$3" >"$root/status"
    cat >"$root/apt.conf" <<END
Dir::State "$root/state";
Dir::State::status "$root/status";
Dir::Cache "$root/cache";
APT::Architecture "$2";
APT::Architectures { "$2"; };
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "3";
END
}

update_apt_root() {
    # A source that has nothing for this architecture, or a bad index, is no reason to stop: what is missing shows later.
    APT_CONFIG=$1/apt.conf apt-get -qq update >"$1/update.log" 2>&1 || true
}
