#!/usr/bin/env bash
# Has ffmpeg make small files from which the fuzz targets of containers start: fuzz-seeds.sh CORPUS
#
# Called by `make fuzz`. CORPUS has a folder for each target, which libFuzzer adds to. Without seeds it does not find the index of a
# movie in hours. Every file is shorter than what the targets are given at most. Without ffmpeg it says so and leaves out all.

set -euo pipefail
(($# == 1)) || {
    echo "fuzz-seeds: CORPUS" >&2
    exit 1
}
command -v ffmpeg >/dev/null || {
    echo "fuzz-seeds: no ffmpeg: the fuzz targets of containers start from nothing (apt-get install ffmpeg)" >&2
    exit 0
}
corpus=$1
picture=(-f lavfi -i 'testsrc=size=32x32:rate=25:duration=0.2')
tone=(-f lavfi -i 'sine=duration=0.3')
x264=(-c:v libx264 -preset superfast)
x265=(-c:v libx265 -preset ultrafast -x265-params log-level=none:info=0)

# seed TARGET NAME FORMAT ARGUMENTS...
seed() {
    mkdir -p "$corpus/$1"
    ffmpeg -v error -nostdin -y "${@:4}" -f "$3" "$corpus/$1/seed-$2"
}

seed mp4 plain mp4 "${picture[@]}" "${x264[@]}" -bf 2
seed mp4 fragments mp4 "${picture[@]}" "${x264[@]}" -movflags frag_keyframe+empty_moov
seed mp4 sound mp4 "${picture[@]}" "${tone[@]}" "${x264[@]}" -c:a aac -b:a 16k
seed mp4 h265 mp4 "${picture[@]}" "${x265[@]}" -tag:v hvc1
seed annex_b h264 h264 "${picture[@]}" "${x264[@]}"
seed annex_b h265 hevc "${picture[@]}" "${x265[@]}"
seed media_ts picture mpegts "${picture[@]}" -c:v mpeg2video
seed media_ogg_opus tone ogg "${tone[@]}" -c:a libopus -b:a 8k
seed media_wav linear wav "${tone[@]}" -ar 8000 -t 0.1
seed media_wav telephone wav "${tone[@]}" -ar 8000 -c:a pcm_mulaw
seed media_mpeg_audio mp3 mp3 "${tone[@]}" -ar 22050 -c:a libmp3lame -b:a 16k
seed media_mpeg_audio mp2 mp2 "${tone[@]}" -t 0.1 -c:a mp2 -b:a 32k
