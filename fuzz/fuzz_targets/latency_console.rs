//! What may have come over a core's serial line: records that agree with themselves, or an error.
//!
//! `cargo +nightly fuzz run latency_console`

#![no_main]

#[path = "../../crates/latency/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::console(bytes));
