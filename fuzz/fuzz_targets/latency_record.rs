//! Records that may be a core's, checksums put right: histograms and conditions that agree with
//! themselves, or an error.
//!
//! `cargo +nightly fuzz run latency_record`

#![no_main]

#[path = "../../crates/latency/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::record(bytes));
