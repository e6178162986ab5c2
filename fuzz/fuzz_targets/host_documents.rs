//! What hosts may give as the list of a realm, or as a certificate: no panic, and nothing is
//! believed that the authority did not sign.
//!
//! `cargo +nightly fuzz run host_documents`

#![no_main]

#[path = "../../hostd/src/error.rs"]
#[allow(dead_code, reason = "the agent uses the rest")]
mod error;

#[path = "../../hostd/src/realm"]
#[allow(dead_code, reason = "the agent uses the rest")]
mod realm {
    pub(crate) mod document;
    pub(crate) mod hostile;
    pub(crate) mod verification;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| realm::hostile::play(bytes));
