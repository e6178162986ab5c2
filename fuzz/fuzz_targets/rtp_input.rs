//! Datagrams on the ports of a receiver, from three hosts, at instants that the fuzzer chooses:
//! nothing panics, and what waits and what is sent stay within their bounds. The depacketizer and
//! the sink are those of `crates/media/tests/it/receive/`.
//!
//! `cargo +nightly fuzz run rtp_input`

#![no_main]

#[path = "../../crates/media/tests/it/receive/passing.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod passing;

use std::net::SocketAddr;

use hythe_media::receive::stream::Settings;
use hythe_rtp::receive::requests::Limits;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let settings = Settings {
        requests: Some(Limits::default()),
        packets_max: 32,
        buffer_bytes: 2 << 16,
        ..Settings::default()
    };
    let mut stream = passing::stream(settings, 0);
    let (mut rest, mut now_ns, mut sent_bytes) = (bytes, 0_u64, 0);
    // In front of each datagram: its length, and its host, port, and how long after the one before
    // it comes.
    while let [length, manner, behind @ ..] = rest {
        let (datagram, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        now_ns += u64::from(manner >> 3) * 4_000_000;
        let host = SocketAddr::from(([10, 0, 0, manner & 3], 5004));
        if manner & 4 != 0 {
            stream.take_rtcp(datagram, host, now_ns);
        } else {
            stream
                .take_datagram(datagram, host, now_ns)
                .expect("a sink that takes everything");
        }
        stream.expire(now_ns).expect("a sink that takes everything");
        let report = stream.report(now_ns).expect("reports that can be written");
        sent_bytes += report.map_or(0, |(report, _)| report.len());
    }
    stream.finish(now_ns).expect("a sink that takes everything");
    // A twentieth of what came, 2,000 bytes a second, and what was saved up.
    assert!(sent_bytes <= bytes.len() / 20 + now_ns as usize / 500_000 + 2_000);
});
