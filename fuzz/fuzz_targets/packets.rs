//! Datagrams of a peer, with the session word and without, to both halves of a flow: nothing
//! panics, what is placed stays within its message, and no more is answered than came.
//!
//! `cargo +nightly fuzz run packets`

#![no_main]

#[path = "../../crates/packets/tests/it/hostile_input/mod.rs"]
mod hostile_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_input::read_all(bytes));
