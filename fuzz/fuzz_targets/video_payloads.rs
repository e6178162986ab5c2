//! Payloads of H.264 and H.265 as strangers may send them: whole NAL units come out, or a refusal.
//!
//! `cargo +nightly fuzz run video_payloads`

#![no_main]

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{Depacketize, Received, h264, h265};
use hythe_rtp::unit::Unit;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut format = StreamFormat {
        encoding: Encoding::H264,
        payload_type: 96,
        clock_hz: 90_000,
        channels: 1,
        parameters: String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned(),
    };
    if let Ok(mut depacketizer) = h264::Depacketizer::new(&format) {
        feed(&mut depacketizer, bytes);
    }
    format.encoding = Encoding::H265;
    if let Ok(mut depacketizer) = h265::Depacketizer::new(&format) {
        feed(&mut depacketizer, bytes);
    }
});

/// A byte of what surrounds a payload, a byte of length, the payload.
fn feed(depacketizer: &mut dyn Depacketize, mut bytes: &[u8]) {
    let mut due = 0;
    let mut emit = |unit: &Unit<'_>, _missing: bool| {
        assert!(unit.due >= due && !unit.pieces.is_empty());
        assert!(unit.pieces.iter().all(|nal| !nal.is_empty()));
        due = unit.due;
    };
    let mut time = 0;
    while let [around, length, behind @ ..] = bytes {
        let (payload, rest) = behind.split_at(behind.len().min(usize::from(*length)));
        bytes = rest;
        time += u64::from(around >> 4);
        let received = Received {
            bytes: payload,
            marker: around & 1 != 0,
            time,
            after_gap: around & 2 != 0,
        };
        let _ = depacketizer.take(&received, &mut emit);
    }
    depacketizer.finish(&mut emit);
}
