//! Movies as strangers may make them: samples that hold together, or an error.
//!
//! `cargo +nightly fuzz run mp4`

#![no_main]

use hythe_media::source::{Source, mp4};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("hythe-fuzz-{}.mp4", std::process::id()));
    std::fs::write(&path, bytes).expect("write the movie");
    let opened = mp4::open(&path);
    std::fs::remove_file(&path).expect("remove the movie");
    let Ok(mut source) = opened else {
        return;
    };
    let mut due = 0;
    // Many samples may lie at one place: they end, but not soon.
    for _ in 0..10_000 {
        let Ok(Some(unit)) = source.next() else {
            return;
        };
        assert!(unit.due >= due && !unit.is_empty());
        due = unit.due;
    }
});
