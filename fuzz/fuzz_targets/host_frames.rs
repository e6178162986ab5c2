//! What another host may send: it is read without a panic, no length is believed beyond its limit,
//! and what was read is written as it came.
//!
//! `cargo +nightly fuzz run host_frames`

#![no_main]

#[path = "../../crates/cluster/tests/it/frames/mod.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frames::read_all(bytes));
