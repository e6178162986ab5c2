//! Byte streams of H.264 and H.265 as strangers may make them: pictures that hold together, or an
//! error.
//!
//! `cargo +nightly fuzz run annex_b`

#![no_main]

use hythe_media::source::Source;
use hythe_media::source::annex_b::{Options, open};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mut source) = open("fuzz", bytes, &Options::default()) else {
        return;
    };
    let mut due = 0;
    while let Ok(Some(unit)) = source.next() {
        assert!(unit.due >= due && !unit.is_empty() && unit.len() <= bytes.len());
        due = unit.due;
    }
});
