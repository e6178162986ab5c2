//! Files that may be transport streams: what is read is inside them, and time never runs backwards.
//!
//! `cargo +nightly fuzz run media_ts`

#![no_main]

#[path = "../../crates/media/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::transport_stream(bytes));
