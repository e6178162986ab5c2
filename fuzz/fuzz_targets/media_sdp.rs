//! Session descriptions: what is understood can be said again, and then means the same.
//!
//! `cargo +nightly fuzz run media_sdp`

#![no_main]

#[path = "../../crates/media/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::description(bytes));
