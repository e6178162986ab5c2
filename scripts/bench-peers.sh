#!/usr/bin/env bash
# Fetches what `hythe bench ipc` measures beside Hythe and Debian's packages alone do not bring.
#
# Usage: scripts/bench-peers.sh; as root it installs the packages as well, else it names them. Aeron
# comes from the Maven repository, by its name and version, into target/peers, where hythe-bench
# looks for it. Nothing of the project needs any of this.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

aeron=1.44.1
peers=${CARGO_TARGET_DIR:-target}/peers

install_packages bench-peers openmpi-bin libopenmpi-dev mpich libmpich-dev iceoryx libiceoryx-posh-dev cyclonedds-dev cyclonedds-tools \
    maven openjdk-17-jdk-headless
if [[ ! -f $peers/aeron-all.jar ]]; then
    mkdir -p "$peers"
    mvn --quiet --batch-mode dependency:copy -Dartifact="io.aeron:aeron-all:$aeron" -DoutputDirectory="$peers" -Dmdep.stripVersion=true
fi
ls -l "$peers/aeron-all.jar"
