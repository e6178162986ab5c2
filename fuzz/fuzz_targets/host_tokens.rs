//! What hosts of a realm may declare in its discovery: no panic, and bounded memory.
//!
//! `cargo +nightly fuzz run host_tokens`

#![no_main]

#[path = "../../hostd/src/directory"]
#[allow(dead_code, reason = "the agent uses the rest")]
mod directory {
    pub(crate) mod hostile;
    pub(crate) mod known;
    pub(crate) mod token;
    pub(crate) mod tokens;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| directory::hostile::play(bytes));
