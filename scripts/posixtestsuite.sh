#!/usr/bin/env bash
# Fetches the conformance programs of Debian's source package posixtestsuite into a directory (the first argument), as `source` in it: those of
# sem_* and mq_* are built against hythe_sem_* and hythe_mq_* by `bindings/c/tests/it/posix_suite.rs`.
#
# They are under the GPL: fetched, built and run, and nothing of them is linked with what is given out, or committed. Once they are there, a second
# run does nothing.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
directory=$(mkdir -p "$1" && cd "$1" && pwd)
# shellcheck source=SCRIPTDIR/apt-root.sh
source scripts/apt-root.sh
log=$directory/fetch.log

[[ -d $directory/source/conformance/interfaces/sem_open ]] && exit
rm -rf "${directory:?}/source" "$directory"/posixtestsuite-*
apt_source_root "$directory"
export APT_CONFIG=$directory/apt/source/apt.conf
if ! (cd "$directory" && apt-get -qq source --download-only posixtestsuite && dpkg-source --no-check -x posixtestsuite_*.dsc) >"$log" 2>&1; then
    echo "posixtestsuite: Debian's source package posixtestsuite cannot be fetched (see $log and $APT_CONFIG)" >&2
    exit 1
fi
mv "$directory"/posixtestsuite-*/ "$directory/source"
