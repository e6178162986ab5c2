//! A core of words behind the Linux side of a link: the fuzzer chooses what it writes into them,
//! and when, in the middle of every step of Linux's ports. The core and the ports are those of
//! `crates/rtcore/tests/it/words.rs`.
//!
//! `cargo +nightly fuzz run link_words`

#![no_main]

#[path = "../../crates/rtcore/tests/it/hostile_core/mod.rs"]
#[allow(dead_code, reason = "shared with a test")]
mod hostile_core;

use hostile_core::Scene;
use hostile_core::choices::Choices;
use hostile_core::core::CoreFault;

/// Steps of one input: enough for ports of every kind to be opened, used and closed.
const STEPS: u32 = 200;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let fault = match first % 3 {
        0 => CoreFault::Honest,
        1 => CoreFault::Lying,
        _ => CoreFault::Scribbling,
    };
    Scene::new(Choices::of_bytes(rest), fault).run(STEPS);
});
