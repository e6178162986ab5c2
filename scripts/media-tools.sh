#!/usr/bin/env bash
# Has the programs that `make test-media` runs against: GStreamer as a player and sender, tshark as the judge of packets.
#
# Called by `make test-media` only: they are large, and nothing else needs them. What is there is left alone. Installs as root,
# and otherwise says what to install.

set -euo pipefail
# shellcheck source=SCRIPTDIR/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

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

install_packages media-tools "${packages[@]}"
