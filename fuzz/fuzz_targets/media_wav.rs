//! Files that may be WAV: what is read is inside them.
//!
//! `cargo +nightly fuzz run media_wav`

#![no_main]

#[path = "../../crates/media/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::wav(bytes));
