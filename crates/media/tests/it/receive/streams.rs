//! Streams fed by hand, with a clock of the test's own.

use std::net::SocketAddr;

use hythe_media::receive::stream::{Came, Repair, Settings, Stream};
use hythe_rtp::Identity;
use hythe_rtp::receive::reorder::Origin;
use hythe_rtp::receive::requests::Limits;
use hythe_rtp::rtcp::{Counts, Reports};
use rtcp_types::{Compound, Nack, Packet};

use crate::passing::{Kept, Passing, packet, stream};

const MS: u64 = 1_000_000;

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 5004))
}

/// What a sender says when it leaves.
fn goodbye(identity: &Identity) -> Vec<u8> {
    let counts = Counts {
        unix_ns: 1_000_000_000,
        timestamp: 0,
        packets: 1,
        bytes: 1,
    };
    Reports::new(identity)
        .unwrap()
        .goodbye(counts)
        .unwrap()
        .to_vec()
}

#[test]
fn units_come_in_order_with_their_times_and_gaps() {
    let mut stream = stream(Settings::default(), 0);
    for (sequence, now_ms) in [
        (65_534, 0),
        (65_535, 20),
        (1, 60),
        (0, 61),
        (4, 120),
        (5, 140),
    ] {
        let packet = packet(7, sequence, &[sequence as u8]);
        stream.take_datagram(&packet, host(1), now_ms * MS).unwrap();
    }
    // 2 and 3 are missing since 120.
    assert_eq!(stream.sink().bytes, [254, 255, 0, 1]);
    stream.expire(169 * MS).unwrap();
    assert_eq!(stream.sink().units.len(), 4);
    stream.expire(170 * MS).unwrap();
    assert_eq!(stream.sink().bytes, [254, 255, 0, 1, 4, 5]);
    let late = packet(7, 3, &[3]);
    stream.take_datagram(&late, host(1), 171 * MS).unwrap();
    stream
        .take_datagram(&packet(7, 5, &[5]), host(1), 172 * MS)
        .unwrap();
    // The test's timestamps begin at 0 again with the sequence number, so they jump back by 65,536
    // * 160.
    let back = 65_536 * 160_u64;
    let times: Vec<u64> = stream
        .sink()
        .units
        .iter()
        .map(|unit| unit.0 + back)
        .collect();
    assert_eq!(times[..2], [back, back + 160]);
    let gaps: Vec<bool> = stream.sink().units.iter().map(|unit| unit.1).collect();
    assert_eq!(gaps, [false, false, false, false, true, false]);
    let statistics = stream.statistics();
    assert_eq!((statistics.packets, statistics.bytes), (8, 8));
    assert_eq!((statistics.lost, statistics.largest_gap), (2, 2));
    assert_eq!(
        (statistics.late, statistics.duplicates, statistics.reordered),
        (1, 1, 1)
    );
}

#[test]
fn first_packets_that_overtook_each_other_begin_the_stream() {
    for order in [
        [1, 0, 2, 3, 4, 5],
        [2, 1, 0, 3, 4, 5],
        [0, 2, 1, 3, 4, 5],
        [1, 3, 0, 2, 4, 5],
        [3, 0, 2, 1, 4, 5],
        [5, 3, 0, 1, 2, 4],
        [0, 1, 2, 3, 4, 5],
    ] {
        for first in [100, 65_533_u16] {
            let mut stream = stream(Settings::default(), 0);
            for index in order {
                let packet = packet(7, first.wrapping_add(index.into()), &[index]);
                stream.take_datagram(&packet, host(1), 0).unwrap();
            }
            stream.expire(0).unwrap();
            assert_eq!(stream.sink().bytes, [0, 1, 2, 3, 4, 5], "{order:?}");
            let statistics = stream.statistics();
            let wrong = [statistics.lost, statistics.late, statistics.duplicates];
            assert_eq!((statistics.packets, wrong), (6, [0; 3]), "{order:?}");
            let lost = |report: &[u8]| {
                let mut found = Vec::new();
                for packet in Compound::parse(report).unwrap().map(Result::unwrap) {
                    if let Packet::Rr(report) = packet {
                        found.extend(report.report_blocks().map(|block| block.cumulative_lost()));
                    }
                }
                found
            };
            let at_ns = 60_000 * MS;
            let (report, _) = stream.report(at_ns).unwrap().unwrap();
            assert_eq!(lost(report), [0], "{order:?}");
        }
    }
}

#[test]
fn first_packets_of_an_announced_source_overtake_each_other() {
    for order in [[1, 0, 2, 3, 4, 5], [2, 0, 1, 3, 4, 5], [0, 2, 1, 3, 4, 5]] {
        let settings = Settings {
            ssrc: Some(7),
            host: Some(host(1).ip()),
            ..Settings::default()
        };
        let mut stream = stream(settings, 0);
        for index in order {
            let packet = packet(7, 65_534_u16.wrapping_add(index.into()), &[index]);
            stream.take_datagram(&packet, host(1), 0).unwrap();
        }
        assert_eq!(stream.sink().bytes, [0, 1, 2, 3, 4, 5], "{order:?}");
        let statistics = stream.statistics();
        let wrong = [statistics.lost, statistics.late, statistics.foreign];
        assert_eq!((statistics.packets, wrong), (6, [0; 3]), "{order:?}");
    }
    // A single packet comes out in time.
    let settings = Settings {
        ssrc: Some(7),
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    let only = packet(7, 1, &[1]);
    stream.take_datagram(&only, host(1), 0).unwrap();
    let until_ns = stream.next_ns().expect("it is waited for");
    assert!(until_ns <= settings.delay_ns);
    stream.expire(settings.delay_ns).unwrap();
    assert_eq!(stream.sink().bytes, [1]);
}

#[test]
fn packets_from_before_or_of_others_do_not_begin_the_stream() {
    // A single packet, ages before; a stranger's; then the stream.
    let mut stream = stream(Settings::default(), 0);
    for (ssrc, sequence, from, at_ms) in [
        (7, 7, 1, 0),
        (7, 3, 1, 9_000),
        (8, 9, 1, 9_000),
        (7, 9, 2, 9_000),
        (7, 10, 1, 9_000),
        (7, 11, 1, 9_000),
    ] {
        let packet = packet(ssrc, sequence, &[sequence as u8]);
        stream
            .take_datagram(&packet, host(from), at_ms * MS)
            .unwrap();
    }
    stream.finish(9_000 * MS).unwrap();
    // 3 is near, and may be of it.
    assert_eq!(stream.sink().bytes, [3, 10, 11]);
    // More than are kept do no harm.
    let mut stream = self::stream(Settings::default(), 0);
    for sequence in (0..10_000).step_by(2).chain([9_999]) {
        let packet = packet(7, sequence, &[1]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    stream.finish(0).unwrap();
    assert_eq!(stream.sink().bytes.len(), 5);
}

#[test]
fn packets_of_other_payload_types_are_not_missing() {
    let event = |ssrc, sequence| {
        let mut event = packet(ssrc, sequence, &[5, 10, 0, 160]);
        event[1] = 101;
        event
    };
    let mut stream = stream(Settings::default(), 0);
    let mut take = |packet: &[u8], from, now_ms| {
        stream
            .take_datagram(packet, host(from), now_ms * MS)
            .unwrap();
    };
    // In front of the stream it is of none yet.
    take(&event(7, 9), 1, 0);
    for sequence in [10, 11] {
        take(&packet(7, sequence, &[sequence as u8]), 1, 0);
    }
    // 12 to 14 are an event, and so is 16, which is overtaken by 17; 15 is lost.
    for sequence in [12, 13, 14] {
        take(&event(7, sequence), 1, 20);
    }
    take(&packet(7, 17, &[17]), 1, 40);
    take(&event(7, 16), 1, 41);
    // Of another source, from elsewhere, and with numbers of its own, it fills no hole.
    take(&event(8, 15), 1, 42);
    take(&event(7, 15), 2, 42);
    take(&event(7, 40_000), 1, 42);
    take(&event(7, 40_001), 1, 42);
    take(&packet(7, 18, &[18]), 1, 60);
    assert_eq!(stream.last_packet_ns(), Some(60 * MS));
    stream.expire(200 * MS).unwrap();
    assert_eq!(stream.sink().bytes, [10, 11, 17, 18]);
    let gaps: Vec<bool> = stream.sink().units.iter().map(|unit| unit.1).collect();
    assert_eq!(gaps, [false, false, true, false]);
    let statistics = stream.statistics();
    assert_eq!((statistics.packets, statistics.lost), (4, 1));
    let others = (statistics.other_payload_type, statistics.restarts);
    assert_eq!(others, (9, 0));
    assert_eq!(statistics.foreign, 0);
}

#[test]
fn stream_that_begins_anew_is_played_on() {
    let mut stream = stream(Settings::default(), 0);
    for sequence in [10, 11, 13] {
        let packet = packet(7, sequence, &[sequence as u8]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    // The same SSRC from other numbers; what waited comes out first.
    for sequence in [30_000, 30_001] {
        let packet = packet(7, sequence, &[sequence as u8]);
        stream.take_datagram(&packet, host(1), 20 * MS).unwrap();
    }
    assert_eq!(stream.sink().bytes, [10, 11, 13, 48, 49]);
    // Another SSRC from elsewhere, after a second of silence.
    for sequence in [500, 501] {
        let packet = packet(8, sequence, &[sequence as u8]);
        stream.take_datagram(&packet, host(2), 1_020 * MS).unwrap();
    }
    assert_eq!(stream.sink().bytes, [10, 11, 13, 48, 49, 244, 245]);
    assert_eq!(stream.statistics().restarts, 2);
    let expected = [
        (0, false),
        (160, false),
        (480, true),
        (640, true),
        (800, false),
        (8_800, true),
        (8_960, false),
    ];
    // Time goes on by what passed on our clock: 20 ms, then 1 s.
    assert_eq!(stream.sink().units, expected);
}

#[test]
fn what_waits_is_bounded_by_packets_and_by_bytes() {
    for (packets_max, payload_bytes) in [(16, 100), (4096, 60_000)] {
        let settings = Settings {
            packets_max,
            buffer_bytes: 4 << 16,
            ..Settings::default()
        };
        let mut stream = stream(settings, 0);
        let payload = vec![1; payload_bytes];
        for sequence in [0, 1].into_iter().chain(3..100) {
            let packet = packet(7, sequence, &payload);
            stream.take_datagram(&packet, host(1), 0).unwrap();
        }
        // The hole of 2 was given up for want of free capacity, without any time passing.
        let units = &stream.sink().units;
        assert!(units.len() == 99 && units[2].1, "{}", units.len());
        assert_eq!(stream.statistics().lost, 1);
    }
}

#[test]
fn only_the_streams_own_host_can_end_it() {
    let identity = Identity::seeded(5);
    let mut stream = stream(Settings::default(), 0);
    for sequence in [1, 2] {
        let packet = packet(identity.ssrc, sequence, &[1]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    stream.take_rtcp(&goodbye(&identity), host(2), 1);
    stream.take_rtcp(&goodbye(&Identity::seeded(6)), host(1), 2);
    stream.take_rtcp(&goodbye(&identity)[..70], host(1), 3);
    assert_eq!(
        (stream.goodbye_ns(), stream.statistics().sender_reports),
        (None, 0)
    );
    assert_eq!(stream.statistics().malformed, 1);
    // On the RTP port, too.
    stream
        .take_datagram(&goodbye(&identity), host(1), 4)
        .unwrap();
    assert_eq!(
        (stream.goodbye_ns(), stream.statistics().sender_reports),
        (Some(4), 1)
    );
}

#[test]
fn missing_packets_are_asked_for_where_the_stream_comes_from() {
    let identity = Identity::seeded(5);
    let settings = Settings {
        requests: Some(Limits::default()),
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    assert_eq!(stream.next_ns(), None);
    for sequence in [65_534, 65_535, 2] {
        let packet = packet(identity.ssrc, sequence, &[1]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    assert!(stream.report(MS).unwrap().is_none());
    assert_eq!(stream.next_ns(), Some(2 * MS));
    let (report, to) = stream.report(2 * MS).unwrap().unwrap();
    assert_eq!(to.to_string(), "10.0.0.1:5005");
    let mut asked = Vec::new();
    for packet in Compound::parse(report).unwrap().map(Result::unwrap) {
        if let Packet::TransportFeedback(feedback) = packet {
            assert_eq!(feedback.media_ssrc(), identity.ssrc);
            asked.extend(feedback.parse_fci::<Nack>().unwrap().entries());
        }
    }
    assert_eq!(asked, [0, 1]);
    // From then on: to where the sender's RTCP comes from.
    let mut reporter = host(1);
    reporter.set_port(9999);
    stream.take_rtcp(&goodbye(&identity), reporter, 3 * MS);
    let again_ns = stream.next_ns().unwrap();
    assert_eq!(again_ns, 42 * MS);
    assert_eq!(stream.report(again_ns).unwrap().unwrap().1, reporter);
    assert_eq!(stream.statistics().requested, 4);
    let (last, to) = stream.finish(again_ns).unwrap().unwrap();
    assert!(
        Compound::parse(last)
            .unwrap()
            .any(|packet| matches!(packet, Ok(Packet::Bye(_))))
    );
    assert_eq!(to, reporter);
    assert!(stream.sink().is_finished);
}

#[test]
fn packet_that_comes_again_costs_no_other() {
    let mut stream = stream(Settings::default(), 0);
    for sequence in [1, 2, 4, 5, 5, 4, 1, 3] {
        let packet = packet(7, sequence, &[sequence as u8]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    assert_eq!(stream.sink().bytes, [1, 2, 3, 4, 5]);
    let statistics = stream.statistics();
    assert_eq!((statistics.lost, statistics.duplicates), (0, 3));
}

#[test]
fn resent_packets_fill_holes_however_late() {
    let settings = Settings {
        delay_ns: 1000,
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    let numbers = [1, 2].into_iter().chain(6..900).chain([3, 4, 5]);
    for sequence in numbers {
        let packet = packet(7, sequence, &[sequence as u8 & 0x7f]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    let expected: Vec<u8> = (1..900_u16).map(|sequence| sequence as u8 & 0x7f).collect();
    assert!(stream.sink().bytes == expected);
    let statistics = stream.statistics();
    assert_eq!((statistics.reordered, statistics.restarts), (3, 0));
    // From elsewhere it fills none.
    for sequence in [902, 901] {
        let from = if sequence == 901 { 2 } else { 1 };
        let packet = packet(7, sequence, &[sequence as u8 & 0x7f]);
        stream.take_datagram(&packet, host(from), 0).unwrap();
    }
    assert_eq!(stream.statistics().reordered, 3);
}

/// Under load a request is repeated before its answer arrives, and the sender answers both.
#[test]
fn packets_sent_again_twice_do_not_begin_the_stream_anew() {
    let settings = Settings {
        requests: Some(Limits::default()),
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    let take = |stream: &mut Stream<Passing, Kept>, sequence: u16| {
        let packet = packet(7, sequence, &[sequence as u8 & 0x7f]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    };
    for sequence in [1, 2].into_iter().chain(5..400) {
        take(&mut stream, sequence);
    }
    assert!(stream.report(2 * MS).unwrap().is_some());
    assert_eq!(stream.statistics().requested, 2);
    for sequence in [3, 4, 3, 4, 400] {
        take(&mut stream, sequence);
    }
    let statistics = stream.statistics();
    assert_eq!((statistics.restarts, statistics.duplicates), (0, 2));
    let expected: Vec<u8> = (1..=400_u16)
        .map(|sequence| sequence as u8 & 0x7f)
        .collect();
    assert!(stream.sink().bytes == expected);
}

/// Gives a lost packet for each packet of type 97: its payload is the packet.
struct Plain;

impl Repair for Plain {
    fn begin(&mut self, _ssrc: u32) {}

    fn take(
        &mut self,
        packet: &[u8],
        came: Came,
        _is_missing: &dyn Fn(u16) -> bool,
        emit: &mut dyn FnMut(&[u8], Origin),
    ) -> bool {
        let is_media = came == Came::AsMedia;
        let is_repair = !is_media && packet[1] & 0x7f == 97;
        if is_repair {
            emit(&packet[12..], Origin::Parity);
        }
        is_media || is_repair
    }
}

#[test]
fn repaired_packets_fill_holes_and_lies_are_counted() {
    let mut stream = stream(Settings::default(), 0).with_repair(Box::new(Plain));
    for sequence in [1, 2, 4] {
        let packet = packet(7, sequence, &[sequence as u8]);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    let repair = |lost: &[u8]| {
        let mut repair = packet(99, 1, lost);
        repair[1] = 97;
        repair
    };
    let lost = repair(&packet(7, 3, &[3]));
    stream.take_datagram(&lost, host(2), 1).unwrap();
    assert_eq!(stream.statistics().other_payload_type, 1, "of another host");
    stream
        .take_datagram(&repair(&packet(8, 3, &[9])), host(1), 1)
        .unwrap();
    stream
        .take_datagram(&repair(&[0x80; 5]), host(1), 1)
        .unwrap();
    assert_eq!(stream.statistics().malformed, 2);
    stream.take_datagram(&lost, host(1), 1).unwrap();
    stream.take_datagram(&lost, host(1), 1).unwrap();
    assert_eq!(stream.sink().bytes, [1, 2, 3, 4]);
    // One beyond those that came is taken; far ahead it is not.
    stream
        .take_datagram(&repair(&packet(7, 5, &[5])), host(1), 1)
        .unwrap();
    stream
        .take_datagram(&repair(&packet(7, 30_000, &[6])), host(1), 1)
        .unwrap();
    assert_eq!(stream.sink().bytes, [1, 2, 3, 4, 5]);
    let statistics = stream.statistics();
    assert_eq!(
        (statistics.recovered, statistics.lost, statistics.duplicates),
        (2, 0, 1)
    );
}

#[test]
fn sink_that_fails_says_so_and_nothing_hangs() {
    let mut stream = stream(Settings::default(), 0);
    let mut failed = 0;
    stream
        .take_datagram(&packet(7, 0, &[0; 9]), host(1), 0)
        .unwrap();
    stream.sink_mut().full_at = Some(3);
    for sequence in 1..10_000 {
        let packet = packet(7, sequence, &[1; 1000]);
        failed += u32::from(stream.take_datagram(&packet, host(1), 0).is_err());
    }
    assert!(failed > 0);
    assert_eq!(stream.sink().units.len(), 3);
}

#[test]
fn packets_without_payload_or_with_a_bad_one_make_no_unit() {
    let mut stream = stream(Settings::default(), 0);
    for (sequence, payload) in [(1, &[1][..]), (2, &[2]), (4, &[]), (5, &[0xEE]), (6, &[6])] {
        let packet = packet(7, sequence, payload);
        stream.take_datagram(&packet, host(1), 0).unwrap();
    }
    stream.finish(0).unwrap();
    assert_eq!(stream.sink().bytes, [1, 2, 6]);
    assert_eq!(stream.statistics().malformed_payloads, 1);
}

#[test]
fn packets_in_order_lost_and_overtaken_allocate_nothing() {
    let mut stream = stream(Settings::default(), 0);
    stream.sink_mut().bytes.reserve(10_000);
    stream.sink_mut().units.reserve(10_000);
    let sequences = (0..5000_u16).filter(|sequence| sequence % 50 != 7);
    let mut packets: Vec<_> = sequences
        .map(|sequence| packet(7, sequence, &[1]))
        .collect();
    packets.chunks_mut(20).for_each(|chunk| chunk.swap(3, 5));
    let allocations = allocation_counter::measure(|| {
        for (packet, now_ms) in packets.iter().zip(0..) {
            stream.take_datagram(packet, host(1), now_ms * MS).unwrap();
            stream.expire(now_ms * MS).unwrap();
        }
    });
    assert_eq!(allocations.count_total, 0);
    let statistics = stream.statistics();
    assert!(
        statistics.lost > 90 && statistics.reordered > 200,
        "{statistics:?}"
    );
}
