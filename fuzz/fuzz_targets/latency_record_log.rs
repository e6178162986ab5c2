//! What may be QEMU's record of a run: edges in order and intervals between them, or an error.
//!
//! `cargo +nightly fuzz run latency_record_log`

#![no_main]

#[path = "../../crates/latency/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::record_log(bytes));
