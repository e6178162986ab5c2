//! Media, parity, retransmissions and requests by a hostile peer: no panic, no packet beyond the
//! limits, no flood. The peer is that of `crates/rtp/tests/it/hostile_loss.rs`.
//!
//! `cargo +nightly fuzz run media_loss`

#![no_main]

#[path = "../../crates/rtp/tests/it/hostile_loss/peer.rs"]
mod peer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| peer::play(bytes));
