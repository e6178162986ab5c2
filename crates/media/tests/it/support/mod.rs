//! What the tests of sources, payloads and sinks share: inputs made by ffmpeg or by hand, packets
//! in between.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use hythe_media::MediaError;
use hythe_media::source::{Input, Source};
use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::{Malformed, Received, depacketizer, packetizer};
use hythe_rtp::unit::Unit;

/// Runs ffmpeg with these arguments and returns what it writes to standard output; `None`, said
/// aloud, where it is not installed.
pub(crate) fn ffmpeg(arguments: &str) -> Option<Vec<u8>> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]);
    match command.args(arguments.split_whitespace()).output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{arguments}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(output.stdout)
        }
        Err(error) => {
            eprintln!("SKIPPED: ffmpeg cannot be started ({error}): apt-get install ffmpeg");
            None
        }
    }
}

/// An input that ffmpeg makes: two seconds of picture and tone, or of tone.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static str,
}

/// One of each format, two of MPEG audio.
pub(crate) const SAMPLES: [Sample; 5] = [
    Sample {
        name: "sample.ts",
        arguments: "-f lavfi -i testsrc=size=160x120:rate=25:duration=2 -f lavfi -i sine=duration=2 \
                    -c:v mpeg2video -g 12 -c:a mp2 -f mpegts",
    },
    Sample {
        name: "sample.wav",
        arguments: "-f lavfi -i sine=duration=2:sample_rate=44100 -ac 2 -c:a pcm_s16le -f wav",
    },
    Sample {
        name: "sample.mp3",
        arguments: "-f lavfi -i sine=duration=2:sample_rate=44100 -ac 2 -c:a libmp3lame -b:a 128k \
                    -write_xing 0 -id3v2_version 0 -f mp3",
    },
    Sample {
        name: "sample.mp2",
        arguments: "-f lavfi -i sine=duration=2:sample_rate=48000 -ac 2 -c:a mp2 -b:a 192k -f mp2",
    },
    Sample {
        name: "sample.opus",
        arguments: "-f lavfi -i sine=duration=2:sample_rate=48000 -ac 1 -c:a libopus -b:a 16k -f ogg",
    },
];

impl Sample {
    /// Writes it into `directory`.
    pub(crate) fn make(&self, directory: &Path) -> Option<std::path::PathBuf> {
        let path = directory.join(self.name);
        ffmpeg(&format!("{} {}", self.arguments, path.display()))?;
        Some(path)
    }
}

/// A unit that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnUnit {
    pub(crate) bytes: Vec<u8>,
    pub(crate) time: u64,
    pub(crate) duration: u32,
    pub(crate) missing: bool,
}

impl OwnUnit {
    fn of(unit: &Unit<'_>, missing: bool) -> Self {
        Self {
            bytes: unit.pieces.concat(),
            time: unit.time,
            duration: unit.duration,
            missing,
        }
    }

    /// Hands it on as a unit.
    pub(crate) fn with<T>(&self, take: impl FnOnce(&Unit<'_>) -> T) -> T {
        take(&Unit {
            pieces: &[&self.bytes],
            time: self.time,
            due: self.time,
            duration: self.duration,
            is_start: true,
        })
    }
}

/// All units of `source`, or what stopped it.
pub(crate) fn units(source: &mut dyn Source) -> Result<Vec<OwnUnit>, MediaError> {
    let mut units = Vec::new();
    while let Some(unit) = source.next()? {
        assert!(unit.due <= unit.time && !unit.is_empty());
        units.push(OwnUnit::of(&unit, false));
    }
    Ok(units)
}

/// A packet's payload, as it would be received.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marker: bool,
    pub(crate) time: u64,
}

/// The payloads of `units`, each checked against `limit`.
pub(crate) fn packets(format: &StreamFormat, units: &[OwnUnit], limit: usize) -> Vec<Packet> {
    let mut packetizer = packetizer(format).unwrap();
    let mut packets = Vec::new();
    for unit in units {
        unit.with(|unit| {
            packetizer.packetize(unit, limit, &mut |payload| {
                assert!(
                    payload.len() <= limit && !payload.is_empty() && payload.due <= payload.time
                );
                packets.push(Packet {
                    bytes: [payload.prefix, &payload.body.concat()].concat(),
                    marker: payload.marker,
                    time: payload.time,
                });
            });
        });
    }
    packets
}

/// What comes of `packets` without those of which `is_lost` says so, and how many were malformed.
pub(crate) fn received(
    format: &StreamFormat,
    packets: &[Packet],
    is_lost: impl Fn(usize) -> bool,
) -> (Vec<OwnUnit>, Vec<Malformed>) {
    let mut depacketizer = depacketizer(format).unwrap();
    let (mut units, mut malformed) = (Vec::new(), Vec::new());
    let mut emit = |unit: &Unit<'_>, missing: bool| units.push(OwnUnit::of(unit, missing));
    let mut after_gap = false;
    for (index, packet) in packets.iter().enumerate() {
        if is_lost(index) {
            after_gap = true;
            continue;
        }
        let received = Received {
            bytes: &packet.bytes,
            marker: packet.marker,
            time: packet.time,
            after_gap,
        };
        malformed.extend(depacketizer.take(&received, &mut emit).err());
        after_gap = false;
    }
    depacketizer.finish(&mut emit);
    (units, malformed)
}

/// All bytes in a row.
pub(crate) fn joined(units: &[OwnUnit]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = units.iter().map(|unit| &unit.bytes[..]).collect();
    pieces.concat()
}

/// Bytes as an input.
pub(crate) fn input(bytes: &[u8]) -> Input {
    Input::new("test", Cursor::new(bytes.to_vec()))
}
