//! Answers to our RTSP client by a server that says anything: no panic, bounded buffers, no host
//! but the server's own to send to. The server is that of `crates/media/tests/it/rtsp_client/`.
//!
//! `cargo +nightly fuzz run rtsp_answers`

#![no_main]

#[path = "../../crates/media/tests/it/rtsp_client/hostile_answers.rs"]
mod hostile_answers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile_answers::play(bytes));
