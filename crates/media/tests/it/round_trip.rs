//! What goes in comes out: source, packetizer, depacketizer and sink against each other, for every
//! limit of a payload, and with each packet lost in turn.

use crate::support;

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::support::{OwnUnit, SAMPLES, ffmpeg, joined, packets, received, units};
use hythe_media::g711;
use hythe_media::sink;
use hythe_media::source::{OpenOptions, open};
use hythe_rtp::format::{Encoding, StreamFormat};

const LIMITS: RangeInclusive<usize> = 64..=1500;

/// Each sample's format and units; WAV as L16, PCMU and PCMA. `None`, said aloud, without ffmpeg.
fn streams(directory: &Path) -> Option<Vec<(StreamFormat, Vec<OwnUnit>)>> {
    let mut streams = Vec::new();
    for sample in &SAMPLES {
        let path = sample.make(directory)?;
        let encodings = match sample.name {
            "sample.wav" => &[Encoding::L16, Encoding::Pcmu, Encoding::Pcma][..],
            _ => &[Encoding::L16],
        };
        for samples_as in encodings {
            let options = OpenOptions {
                samples_as: *samples_as,
                ..OpenOptions::default()
            };
            let mut source = open(&path, &options).unwrap();
            let units = units(&mut *source).unwrap();
            assert_eq!(source.damaged(), 0, "{}", sample.name);
            streams.push((source.format().clone(), units));
        }
    }
    Some(streams)
}

/// The least limit at which anything can be sent.
fn least_limit(format: &StreamFormat, units: &[OwnUnit]) -> usize {
    match format.encoding {
        Encoding::MpegTs => 188,
        Encoding::Opus => units.iter().map(|unit| unit.bytes.len()).max().unwrap(),
        _ => 0,
    }
}

#[test]
fn every_limit_gives_back_what_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let Some(streams) = streams(directory.path()) else {
        return;
    };
    for (format, units) in streams {
        // A part of them, since there are many limits.
        let units = &units[..units.len().min(12)];
        let least = least_limit(&format, units);
        for limit in LIMITS {
            let packets = packets(&format, units, limit);
            let (got, malformed) = received(&format, &packets, |_| false);
            assert!(malformed.is_empty() && got.iter().all(|unit| !unit.missing));
            assert!(
                packets.iter().all(|packet| !packet.marker),
                "nothing was silent"
            );
            let is_whole = joined(&got) == joined(units);
            assert!(
                is_whole || limit < least,
                "{:?} at {limit}",
                format.encoding
            );
            for pair in got.windows(2) {
                let end = pair[0].time + u64::from(pair[0].duration);
                // Ticks of 90 kHz are no whole number of samples.
                assert!(pair[1].time + 1 >= end, "{:?} at {limit}", format.encoding);
            }
        }
    }
}

#[test]
fn any_lost_packet_costs_no_more_than_itself() {
    let directory = tempfile::tempdir().unwrap();
    let Some(streams) = streams(directory.path()) else {
        return;
    };
    for (format, units) in streams {
        let units = &units[..units.len().min(12)];
        for limit in [200, 500, 1400] {
            let packets = packets(&format, units, limit);
            let (whole, _) = received(&format, &packets, |_| false);
            for lost in 0..packets.len() {
                let (got, malformed) = received(&format, &packets, |index| index == lost);
                assert!(malformed.is_empty());
                // What came is what was sent, in order, and what is missing was in a row.
                let front = got
                    .iter()
                    .zip(&whole)
                    .take_while(|(got, sent)| got.bytes == sent.bytes)
                    .count();
                let back = got.len() - front;
                assert!(joined(&got[front..]) == joined(&whole[whole.len() - back..]));
                let missing = whole.len() - got.len();
                let frames = 1 + packets[lost].bytes.len() / 400;
                assert!(
                    (1..=frames).contains(&missing),
                    "{:?}: {missing} units",
                    format.encoding
                );
                let told: Vec<_> = (0..got.len()).filter(|index| got[*index].missing).collect();
                let expected = if back == 0 { vec![] } else { vec![front] };
                // Equal units in front of and behind the gap hide where it is.
                assert_eq!(
                    told.len(),
                    expected.len(),
                    "{:?} {limit} {lost}",
                    format.encoding
                );
            }
        }
    }
}

#[test]
fn files_come_back_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let Some(streams) = streams(directory.path()) else {
        return;
    };
    let out = directory.path().join("out");
    for (format, units) in streams {
        for limit in [64, 188, 400, 1316, 1400, 1500] {
            if limit < least_limit(&format, &units) {
                continue;
            }
            let (got, _) = received(&format, &packets(&format, &units, limit), |_| false);
            let mut sink = sink::open(&out, &format).unwrap();
            for unit in &got {
                unit.with(|unit| sink.take(unit, false)).unwrap();
            }
            sink.finish().unwrap();
            drop(sink);
            let same_file = |name: &str| {
                fs::read(&out).unwrap() == fs::read(directory.path().join(name)).unwrap()
            };
            match format.encoding {
                Encoding::MpegTs => assert!(same_file("sample.ts")),
                Encoding::MpegAudio if joined(&units)[1] & 6 == 4 => {
                    assert!(same_file("sample.mp2"))
                }
                Encoding::MpegAudio => assert!(same_file("sample.mp3")),
                Encoding::Opus => {
                    let mut again = open(&out, &OpenOptions::default()).unwrap();
                    let again = support::units(&mut *again).unwrap();
                    assert!(again == units, "at {limit}");
                }
                encoding => assert_samples(encoding, directory.path(), &out),
            }
        }
    }
}

/// The WAV file `out` holds the samples of the original, or what G.711 makes of them.
fn assert_samples(encoding: Encoding, directory: &Path, out: &Path) {
    let original = hythe_media::wav::read(&directory.join("sample.wav")).unwrap();
    let expected = original.samples.iter().map(|sample| match encoding {
        Encoding::Pcmu => g711::expand_ulaw(g711::compress_ulaw(*sample)),
        Encoding::Pcma => g711::expand_alaw(g711::compress_alaw(*sample)),
        _ => *sample,
    });
    let got = hythe_media::wav::read(out).unwrap();
    assert_eq!(got.format, original.format);
    assert!(expected.eq(got.samples), "{encoding:?}");
}

#[test]
fn times_are_those_of_the_media() {
    let directory = tempfile::tempdir().unwrap();
    let Some(streams) = streams(directory.path()) else {
        return;
    };
    for (format, units) in streams {
        assert_eq!(units[0].time, 0);
        let last = units.last().unwrap();
        let end = (last.time + u64::from(last.duration)) as f64 / f64::from(format.clock_hz);
        // Two seconds; encoders add a frame or three, and the first and last pictures of a
        // transport stream take no time in it.
        assert!((1.8..2.2).contains(&end), "{:?}: {end} s", format.encoding);
        let later = units
            .windows(2)
            .all(|pair| pair[1].time == pair[0].time + u64::from(pair[0].duration));
        assert!(later, "{:?}", format.encoding);
    }
}

/// Compares all samples and all codes with an independent implementation, which rounds to the
/// nearest level; the Recommendation rounds where its tables say, and mirrors negative samples.
/// Then codes are neighbours, and rarely so.
#[test]
fn g711_agrees_with_ffmpeg() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
    fs::write(
        path("samples"),
        samples
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect::<Vec<_>>(),
    )
    .unwrap();
    fs::write(path("codes"), (0..=255).collect::<Vec<u8>>()).unwrap();
    type Law = (&'static str, fn(i16) -> u8, fn(u8) -> i16);
    let laws: [Law; 2] = [
        ("mulaw", g711::compress_ulaw, g711::expand_ulaw),
        ("alaw", g711::compress_alaw, g711::expand_alaw),
    ];
    for (name, compress, expand) in laws {
        let raw = "-ar 8000 -ac 1";
        let Some(codes) = ffmpeg(&format!(
            "-f s16le {raw} -i {} -f {name} -",
            path("samples")
        )) else {
            return;
        };
        let expanded = ffmpeg(&format!("-f {name} {raw} -i {} -f s16le -", path("codes"))).unwrap();
        let ours: Vec<u8> = (0..=255)
            .flat_map(|code| expand(code).to_le_bytes())
            .collect();
        assert!(expanded == ours, "{name}");

        let mut levels: Vec<i16> = (0..=255).map(expand).collect();
        levels.sort_unstable();
        levels.dedup();
        let level = |code: u8| levels.binary_search(&expand(code)).unwrap();
        let mut others = 0;
        assert_eq!(codes.len(), samples.len());
        for (sample, code) in samples.iter().zip(codes) {
            if compress(*sample) != code {
                others += 1;
                let apart = level(compress(*sample)).abs_diff(level(code));
                assert!(apart <= 1, "{name} of {sample}");
            }
        }
        println!("{name}: {others} of 65,536 samples have a neighbour's code");
        assert!(others <= 1000, "{name}: {others}");
    }
}
