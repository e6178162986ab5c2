//! What may come over a tunnel through Zenoh: no panic, and no more is kept than its window.
//!
//! `cargo +nightly fuzz run host_tunnels`

#![no_main]

#[path = "../../hostd/src/zenoh_session"]
#[allow(dead_code, reason = "the agent uses the rest")]
mod zenoh_session {
    pub(crate) mod flow;
    pub(crate) mod hostile;
    pub(crate) mod message;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zenoh_session::hostile::play(bytes));
