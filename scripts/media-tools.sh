#!/usr/bin/env bash
# Has the programs that `make test-media` runs against: GStreamer as a player and sender, tshark as the judge of packets.
#
# Called by `make test-media` only: they are large, and nothing else needs them. What is there is left alone. Installs as root,
# and otherwise says what to install.

set -euo pipefail

# One reason per package.
packages=(
    ffmpeg                     # makes the inputs, plays and sends
    gstreamer1.0-tools         # gst-launch-1.0
    gstreamer1.0-plugins-base  # Ogg, Opus, raw audio
    gstreamer1.0-plugins-good  # RTP, UDP, WAV, MP4
    gstreamer1.0-plugins-bad   # the session description, transport streams, video parsers
    gstreamer1.0-libav         # decoders of video
    tshark                     # captures and reads packets
)

command -v dpkg-query >/dev/null || {
    echo "media-tools: this is not Debian; have the equivalents of: ${packages[*]}" >&2
    exit 0
}
installed=" $(dpkg-query --show --showformat '${db:Status-Status}=${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
    [[ $installed == *" installed=$package "* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
if ((EUID != 0)); then
    printf 'media-tools: these packages are missing; run this, then try again:\n\n  sudo apt-get install --no-install-recommends %s\n\n' \
        "${missing[*]}" >&2
    exit 1
fi
echo "media-tools: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -o DPkg::Lock::Timeout=120)
"${apt[@]}" update </dev/null
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
