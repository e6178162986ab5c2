//! What may come where records of TLS are expected: no panic, and only what was sealed comes out.
//!
//! `cargo +nightly fuzz run host_records`

#![no_main]

#[path = "../../hostd/src/tls"]
#[allow(dead_code, reason = "the agent uses the rest")]
mod tls {
    pub(crate) mod hostile;
    pub(crate) mod record;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tls::hostile::play(bytes));
