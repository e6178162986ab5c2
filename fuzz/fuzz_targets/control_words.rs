//! A hostile peer scribbles over the control file between any two accesses of honest members; the
//! fuzzer chooses where, when and what. The members and the peer are those of
//! `crates/pool/tests/it/hostile.rs`.
//!
//! `cargo +nightly fuzz run control_words`

#![no_main]

#[path = "../../crates/pool/tests/it/hostile_peer/mod.rs"]
mod hostile_peer;

use hostile_peer::PeerFault;
use hostile_peer::choices::Choices;
use hostile_peer::member::Scene;

/// Turns of one input: enough to make a way, use it, and leave it.
const TURNS: u32 = 64;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let fault = match first % 4 {
        0 => PeerFault::Scattered,
        1 => PeerFault::Aimed,
        2 => PeerFault::Relentless,
        _ => PeerFault::Stubborn,
    };
    let _ = Scene::new(Choices::of_bytes(rest)).run(TURNS, fault);
});
