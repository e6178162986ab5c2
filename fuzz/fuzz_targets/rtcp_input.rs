//! Datagrams of RTCP as anybody may send them: they are read without a panic, and never say more
//! than fits into them.
//!
//! `cargo +nightly fuzz run rtcp_input`

#![no_main]

use hythe_rtp::receive::parsed_rtcp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut events = 0;
    let is_valid = parsed_rtcp::read(bytes, &mut |_| events += 1);
    assert!(is_valid || events == 0);
    // A source of a goodbye has four bytes.
    assert!(events * 4 <= bytes.len());
});
