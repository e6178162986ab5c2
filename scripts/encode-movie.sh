#!/usr/bin/env bash
# Encodes a movie as `hythe play` takes it, of pictures and tones that ffmpeg makes: 320x240, 25 pictures a second, a key frame each
# second, H.264 Baseline and MP3 of two channels.
#
#   scripts/encode-movie.sh OUTPUT.mp4 SECONDS [OPTION...]
#
# Called by setup.sh, for `hythe bench core --player`, and by the player's tests; options are for ffmpeg's encoders.
# Leaves no half of a movie behind.

set -euo pipefail

output=$1
duration=duration=$2
shift 2

unfinished=$output.unfinished
trap 'rm -f "$unfinished"' EXIT
ffmpeg -nostdin -loglevel error -y \
    -f lavfi -i "testsrc2=size=320x240:rate=25:$duration" \
    -f lavfi -i "aevalsrc=sin(2000*t*t)|sin(3000*t):s=44100:$duration" \
    -c:v libx264 -profile:v baseline -pix_fmt yuv420p -g 25 -c:a libmp3lame "$@" -f mp4 "$unfinished"
mv "$unfinished" "$output"
