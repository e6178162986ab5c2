//! Files that may be Opus in Ogg (the crate `ogg` does not check sums when it is fuzzed): as many
//! packets as there are.
//!
//! `cargo +nightly fuzz run media_ogg_opus`

#![no_main]

#[path = "../../crates/media/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::ogg_opus(bytes));
