//! What holds for every parser of media whatever it is given: no panic, no more out than in, time
//! that never runs backwards. Used by `tests/hostile.rs` with seeds, and by the fuzz targets.
#![allow(dead_code, reason = "each fuzz target uses a part of it")]

use std::io::Cursor;

use hythe_media::MediaError;
use hythe_media::source::mpeg_audio::MpegAudioSource;
use hythe_media::source::ogg_opus::OggOpusSource;
use hythe_media::source::ts::TsSource;
use hythe_media::source::{Input, Source, wav};
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{Received, depacketizer};
use hythe_rtp::sdp;

fn input(bytes: &[u8]) -> Input {
    Input::new("hostile", Cursor::new(bytes.to_vec()))
}

/// Reads all units. A source that is refused at once, or on the way, is as good as one that ends.
fn drain<S: Source>(opened: Result<S, MediaError>, bytes: &[u8]) {
    let Ok(mut source) = opened else {
        return;
    };
    let (mut given, mut due) = (0, 0);
    while let Ok(Some(unit)) = source.next() {
        assert!(!unit.is_empty() && unit.due >= due && unit.time >= unit.due);
        given += unit.len();
        due = unit.due;
        assert!(given <= bytes.len(), "more than was read");
    }
    assert!(source.damaged() <= bytes.len() as u64 + 1);
}

pub(crate) fn transport_stream(bytes: &[u8]) {
    drain(TsSource::new(input(bytes), None), bytes);
    drain(
        TsSource::new(
            input(bytes),
            Some(u32::from(bytes.first().copied().unwrap_or(0))),
        ),
        bytes,
    );
}

pub(crate) fn wav(bytes: &[u8]) {
    for encoding in [Encoding::L16, Encoding::Pcma] {
        drain(wav::open(input(bytes), encoding, 20), bytes);
    }
}

pub(crate) fn mpeg_audio(bytes: &[u8]) {
    drain(MpegAudioSource::new(input(bytes), 1400), bytes);
}

pub(crate) fn ogg_opus(bytes: &[u8]) {
    drain(OggOpusSource::new(input(bytes)), bytes);
}

/// Takes `bytes` as payloads: the first says of which encoding; then a byte of flags, one of length
/// and so many follow each other.
pub(crate) fn payloads(bytes: &[u8]) {
    const ENCODINGS: [Encoding; 6] = [
        Encoding::MpegTs,
        Encoding::L16,
        Encoding::Pcmu,
        Encoding::Pcma,
        Encoding::MpegAudio,
        Encoding::Opus,
    ];
    let Some((first, mut rest)) = bytes.split_first() else {
        return;
    };
    let format = StreamFormat {
        encoding: ENCODINGS[usize::from(first & 0x7f) % ENCODINGS.len()],
        payload_type: 96,
        clock_hz: 48_000,
        channels: 1 + (first >> 7),
        parameters: String::new(),
    };
    let mut depacketizer = depacketizer(&format).expect("one or two channels");
    let (mut taken, mut given) = (0, 0);
    let mut time = 0;
    while let [flags, length, behind @ ..] = rest {
        let (payload, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        taken += payload.len();
        time += u64::from(flags >> 2) << 20;
        let received = Received {
            bytes: payload,
            marker: flags & 1 != 0,
            time,
            after_gap: flags & 2 != 0,
        };
        let result = depacketizer.take(&received, &mut |unit, _| {
            assert!(!unit.is_empty() && unit.time == unit.due);
            given += unit.len();
        });
        assert!(result.is_err() || payload.len() <= taken);
        assert!(given <= taken, "more than was received");
    }
    depacketizer.finish(&mut |unit, _| given += unit.len());
    assert!(given <= taken);
}

/// What is understood can be said again, and then means the same.
pub(crate) fn description(bytes: &[u8]) {
    if let Ok(streams) = sdp::parse(bytes) {
        let text = sdp::describe(&streams, 1);
        assert_eq!(sdp::parse(text.as_bytes()), Ok(streams), "{text}");
    }
}
