//! Sources that change, and others that would like to be the stream.

use std::net::SocketAddr;

use hythe_media::receive::stream::{Settings, Stream};

use crate::passing::{Kept, Passing, packet, packet_of, stream};

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

#[test]
fn change_of_the_payload_type_is_noticed() {
    // Source, host, bytes of each packet, and milliseconds until it counts as a change.
    for (ssrc, from, bytes, expected_ms) in [
        (7, 1, 160, Some(1000)),
        (8, 1, 160, Some(5000)),
        (7, 1, 4, None),
        (8, 2, 160, None),
    ] {
        let mut stream = stream(Settings::default(), 0);
        send(&mut stream, (7, 1), 10..20, 0);
        let mut changed_ms = None;
        for count in 0..400_u16 {
            let packet = packet_of(97, ssrc, 20 + count, &vec![1; bytes]);
            let now_ms = 200 + u64::from(count) * 20;
            stream
                .take_datagram(&packet, host(from), now_ms * MS)
                .unwrap();
            match stream.changed_type(now_ms * MS) {
                Some(97) => changed_ms = changed_ms.or(Some(now_ms - 200)),
                other => assert_eq!(other, None),
            }
        }
        assert_eq!(changed_ms, expected_ms, "{ssrc} {from} {bytes}");
        assert_eq!(stream.other_type(), expected_ms.map(|_| 97));
    }
    // Beside the stream, it is none; nor where the stream never began.
    let mut both = stream(Settings::default(), 0);
    let mut none = stream(Settings::default(), 0);
    for sequence in 0..400 {
        let now_ns = u64::from(sequence) * 20 * MS;
        let other = packet_of(97, 9, sequence, &[1; 160]);
        both.take_datagram(&other, host(1), now_ns).unwrap();
        none.take_datagram(&other, host(1), now_ns).unwrap();
        let own = packet(7, sequence, &[1]);
        both.take_datagram(&own, host(1), now_ns).unwrap();
        assert_eq!(
            (both.changed_type(now_ns), none.changed_type(now_ns)),
            (None, None)
        );
    }
    assert_eq!((both.other_type(), none.other_type()), (None, Some(97)));
}
