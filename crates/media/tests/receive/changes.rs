//! Sources that change, and others that would like to be the stream.

use std::net::SocketAddr;

use hythe_media::receive::stream::{Settings, Stream};

use crate::passing::{Kept, Passing, packet, stream};

const MS: u64 = 1_000_000;

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 5004))
}

/// Has packets of `ssrc` come, 20 ms apart from `begin_ms` on; their payload is their number.
fn send(
    stream: &mut Stream<Passing, Kept>,
    (ssrc, from): (u32, u8),
    sequences: std::ops::Range<u16>,
    begin_ms: u64,
) {
    for (count, sequence) in (0..).zip(sequences) {
        let packet = packet(ssrc, sequence, &[sequence as u8]);
        let now_ns = (begin_ms + count * 20) * MS;
        stream.take_datagram(&packet, host(from), now_ns).unwrap();
    }
}

#[test]
fn new_ssrc_of_a_restarted_encoder_loses_nothing() {
    // At the same address, and at another one: only the silence that is waited for differs.
    for (from, packets) in [(1, 20), (2, 60)] {
        let mut stream = stream(Settings::default(), 0);
        send(&mut stream, (7, 1), 10..20, 0);
        send(&mut stream, (8, from), 100..100 + packets, 200);
        let expected: Vec<u8> = (10..20).chain(100..100 + packets as u8).collect();
        assert_eq!(stream.sink().bytes, expected);
        let statistics = stream.statistics();
        assert_eq!((statistics.source_changes, statistics.restarts), (1, 1));
        assert_eq!((statistics.foreign, statistics.lost), (0, 0));
        // Time goes on by what passed between the last packet and the first of the new source.
        let units = &stream.sink().units;
        assert_eq!(units[9..12], [(1440, false), (1600, true), (1760, false)]);
    }
}

#[test]
fn overtaken_packets_of_a_new_source_come_in_order() {
    let mut stream = stream(Settings::default(), 0);
    send(&mut stream, (7, 1), 10..20, 0);
    for (count, sequence) in (0..).zip([65_535, 65_534, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10]) {
        let packet = packet(8, sequence, &[sequence as u8]);
        let now_ns = (200 + count * 20) * MS;
        stream.take_datagram(&packet, host(1), now_ns).unwrap();
    }
    let expected = [254, 255, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    assert_eq!(stream.sink().bytes[10..], expected);
    assert_eq!(stream.statistics().foreign, 0);
}

#[test]
fn forged_source_does_not_take_over_a_living_stream() {
    for from in [1, 2] {
        let mut stream = stream(Settings::default(), 0);
        send(&mut stream, (7, 1), 10..12, 1000);
        let mut forged = 100..;
        for sequence in 12..60_u16 {
            send(
                &mut stream,
                (7, 1),
                sequence..sequence + 1,
                u64::from(sequence) * 100,
            );
            // Many of them, in sequence, between any two packets of the stream.
            for sequence in forged.by_ref().take(5) {
                let begin_ms = u64::from((sequence - 100) / 5 + 12) * 100 + 50;
                send(&mut stream, (8, from), sequence..sequence + 1, begin_ms);
            }
        }
        assert_eq!(stream.sink().bytes, (10..60).collect::<Vec<u8>>());
        let statistics = stream.statistics();
        assert_eq!((statistics.source_changes, statistics.foreign), (0, 240));
    }
}

#[test]
fn wrongly_announced_ssrc_is_only_a_hint() {
    let settings = Settings {
        ssrc: Some(99),
        host: Some(host(1).ip()),
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    send(&mut stream, (7, 1), 10..20, 0);
    send(&mut stream, (8, 2), 10..20, 0);
    assert_eq!(stream.sink().bytes, (10..20).collect::<Vec<u8>>());
    assert_eq!(stream.statistics().foreign, 10, "of another host");
}

#[test]
fn waiting_packets_give_way_to_the_stream() {
    let settings = Settings {
        buffer_bytes: 4 << 16,
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    send(&mut stream, (7, 1), 10..12, 0);
    let payload = vec![1; 60_000];
    for sequence in 0..100 {
        let packet = packet(8, sequence, &payload);
        stream.take_datagram(&packet, host(2), 40 * MS).unwrap();
    }
    send(&mut stream, (7, 1), 12..20, 40);
    assert_eq!(stream.sink().bytes, (10..20).collect::<Vec<u8>>());
    let statistics = stream.statistics();
    assert_eq!((statistics.foreign, statistics.lost), (100, 0));
}
