//! Datagrams of RTCP as anybody may send them: they are read without a panic, and never say more
//! than has room in them.
//!
//! `cargo +nightly fuzz run rtcp_input`

#![no_main]

use hythe_rtp::receive::heard;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut said = 0;
    let is_valid = heard::read(bytes, &mut |_| said += 1);
    assert!(is_valid || said == 0);
    // A source of a goodbye has four bytes.
    assert!(said * 4 <= bytes.len());
});
