//! Payloads of RTP packets, as anyone may send them: no more comes out than came in.
//!
//! `cargo +nightly fuzz run media_payloads`

#![no_main]

#[path = "../../crates/media/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::payloads(bytes));
