//! Both video formats, sent and received: what goes in comes out, and what is lost or damaged harms
//! nothing else.
#![cfg(test)]

use super::nal::{END, START};
use super::{Depacketize, EmitUnit, Malformed, Packetize, Received, h264, h265};
use crate::format::{Encoding, StreamFormat};
use crate::unit::Unit;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    bytes: Vec<u8>,
    marker: bool,
    time: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Joined {
    nals: Vec<Vec<u8>>,
    time: u64,
    missing: bool,
}

fn format(encoding: Encoding, parameters: &str) -> StreamFormat {
    StreamFormat {
        encoding,
        payload_type: 96,
        clock_hz: 90_000,
        channels: 1,
        parameters: parameters.to_owned(),
    }
}

fn packetizer(encoding: Encoding) -> Box<dyn Packetize> {
    match encoding {
        Encoding::H264 => Box::new(h264::Packetizer),
        _ => Box::new(h265::Packetizer),
    }
}

fn described(encoding: Encoding, parameters: &str) -> Box<dyn Depacketize> {
    let format = format(encoding, parameters);
    match encoding {
        Encoding::H264 => Box::new(h264::Depacketizer::new(&format).unwrap()),
        _ => Box::new(h265::Depacketizer::new(&format).unwrap()),
    }
}

fn depacketizer(encoding: Encoding) -> Box<dyn Depacketize> {
    described(encoding, "")
}

fn packets(encoding: Encoding, nals: &[Vec<u8>], time: u64, limit: usize) -> Vec<Packet> {
    let pieces: Vec<&[u8]> = nals.iter().map(Vec::as_slice).collect();
    let unit = Unit {
        pieces: &pieces,
        time,
        due: time,
        duration: 0,
        is_start: false,
    };
    let mut packets = Vec::new();
    packetizer(encoding).packetize(&unit, limit, &mut |payload| {
        assert!(payload.len() <= limit && payload.prefix.len() <= super::PREFIX_BYTES_MAX);
        packets.push(Packet {
            bytes: [payload.prefix, &payload.body.concat()].concat(),
            marker: payload.marker,
            time: payload.time,
        });
    });
    packets
}

/// Takes packets, of which `None` never came; refusals are counted.
fn join(encoding: Encoding, packets: &[Option<Packet>]) -> (Vec<Joined>, usize) {
    join_with(depacketizer(encoding).as_mut(), packets)
}

fn join_with(
    depacketizer: &mut dyn Depacketize,
    packets: &[Option<Packet>],
) -> (Vec<Joined>, usize) {
    let mut units = Vec::new();
    let mut last_due = 0;
    let mut emit = |unit: &Unit<'_>, missing: bool| {
        assert!(unit.due >= last_due && !unit.pieces.is_empty());
        last_due = unit.due;
        units.push(Joined {
            nals: unit.pieces.iter().map(|nal| nal.to_vec()).collect(),
            time: unit.time,
            missing,
        });
    };
    let emit: &mut EmitUnit<'_> = &mut emit;
    let (mut refused, mut after_gap) = (0, false);
    for packet in packets {
        let Some(packet) = packet else {
            after_gap = true;
            continue;
        };
        let received = Received {
            bytes: &packet.bytes,
            marker: packet.marker,
            time: packet.time,
            after_gap: std::mem::take(&mut after_gap),
        };
        refused += usize::from(depacketizer.take(&received, emit).is_err());
    }
    depacketizer.finish(emit);
    (units, refused)
}

fn refusal(encoding: Encoding, payload: &[u8]) -> &'static str {
    let received = Received {
        bytes: payload,
        marker: true,
        time: 0,
        after_gap: false,
    };
    let mut emit = |_: &Unit<'_>, _| panic!("{payload:?} was taken");
    let refused = depacketizer(encoding).take(&received, &mut emit);
    let Err(Malformed(reason)) = refused else {
        panic!("{payload:?} was not refused");
    };
    reason
}

/// A seeded generator (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// A NAL unit of a stream: header, and bytes that depend on where they are.
    fn nal(&mut self, encoding: Encoding, bytes: usize) -> Vec<u8> {
        let mut nal: Vec<u8> = (0..bytes).map(|_| self.below(256) as u8).collect();
        match encoding {
            Encoding::H264 => nal[0] = [0x65, 0x41, 0x01, 0x06, 0x67, 0x68][self.below(6)],
            _ => {
                nal[0] = [0x26, 0x02, 0x00, 0x4e, 0x40, 0x42][self.below(6)];
                nal[1] = 1 + self.below(3) as u8;
            }
        }
        nal
    }

    fn unit(&mut self, encoding: Encoding) -> Vec<Vec<u8>> {
        let count = 1 + self.below(20);
        let longest = [4, 40, 3000][self.below(3)];
        (0..count)
            .map(|_| {
                let bytes = 2 + self.below(longest);
                self.nal(encoding, bytes)
            })
            .collect()
    }
}

const BOTH: [Encoding; 2] = [Encoding::H264, Encoding::H265];

#[test]
fn what_goes_in_comes_out_whatever_the_limit() {
    for encoding in BOTH {
        let mut dice = Dice(0x5eed);
        for limit in (64..=1500).step_by(7) {
            let sent: Vec<_> = (0..4).map(|time| (time, dice.unit(encoding))).collect();
            let packets: Vec<_> = sent
                .iter()
                .flat_map(|(time, nals)| packets(encoding, nals, *time, limit))
                .map(Some)
                .collect();
            let (joined, refused) = join(encoding, &packets);
            let expected: Vec<_> = sent
                .into_iter()
                .map(|(time, nals)| Joined {
                    nals,
                    time,
                    missing: false,
                })
                .collect();
            assert_eq!((joined, refused), (expected, 0), "limit {limit}");
        }
    }
}

#[test]
fn fragments_are_as_long_as_they_may_be_but_for_the_last() {
    for (encoding, header) in [(Encoding::H264, 2), (Encoding::H265, 3)] {
        let nal = Dice(1).nal(encoding, 1000);
        let packets = packets(encoding, &[nal], 0, 300);
        let lengths: Vec<_> = packets.iter().map(|packet| packet.bytes.len()).collect();
        assert_eq!(lengths[..3], [300, 300, 300]);
        assert_eq!(lengths.len(), 4);
        let bits: Vec<_> = packets
            .iter()
            .map(|packet| packet.bytes[header - 1] & 0xc0)
            .collect();
        assert_eq!(bits, [START, 0, 0, END]);
        let markers: Vec<_> = packets.iter().map(|packet| packet.marker).collect();
        assert_eq!(markers, [false, false, false, true]);
    }
}

/// RFC 6184, figures 7 and 14 and 15: STAP-A with two units, FU-A of an IDR slice with
/// `nal_ref_idc` 3.
#[test]
fn h264_packets_are_laid_out_as_in_the_rfc() {
    let sets = [vec![0x67, 1, 2], vec![0x68, 3], vec![0x06, 4]];
    let aggregated = packets(Encoding::H264, &sets, 0, 64);
    assert_eq!(aggregated.len(), 1);
    assert_eq!(
        aggregated[0].bytes,
        [0x78, 0, 3, 0x67, 1, 2, 0, 2, 0x68, 3, 0, 2, 6, 4]
    );
    assert!(aggregated[0].marker);
    let mut slice = vec![0x65];
    slice.resize(65, 9);
    let fragments = packets(Encoding::H264, &[slice], 0, 64);
    assert_eq!(fragments[0].bytes[..3], [0x7c, 0x85, 9]);
    assert_eq!(fragments[1].bytes, [0x7c, 0x45, 9, 9]);
}

/// RFC 7798, figures 4 and 9: AP with the lowest sub-layer, FU with the type of what it cuts.
#[test]
fn h265_packets_are_laid_out_as_in_the_rfc() {
    let sets = [vec![0x40, 1, 7], vec![0x02, 3, 8]];
    let aggregated = packets(Encoding::H265, &sets, 0, 64);
    assert_eq!(
        aggregated[0].bytes,
        [0x60, 1, 0, 3, 0x40, 1, 7, 0, 3, 2, 3, 8]
    );
    let mut slice = vec![0x26, 2];
    slice.resize(65, 9);
    let fragments = packets(Encoding::H265, &[slice], 0, 64);
    assert_eq!(fragments[0].bytes[..4], [0x62, 2, 0x93, 9]);
    assert_eq!(fragments[1].bytes, [0x62, 2, 0x53, 9, 9]);
}

#[test]
fn units_that_would_be_taken_for_packets_are_left_out() {
    let nals = [
        vec![0x7c, 1],
        vec![0x65, 1],
        vec![0xe5, 1],
        vec![],
        vec![0x18],
    ];
    let sent = packets(Encoding::H264, &nals, 0, 64);
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (sent[0].bytes.as_slice(), sent[0].marker),
        (&[0x65, 1][..], true)
    );
    let nals = [vec![0x62, 1], vec![0x26], vec![0xa6, 1]];
    assert_eq!(packets(Encoding::H265, &nals, 0, 64), []);
}

#[test]
fn any_lost_packet_costs_its_own_units_only() {
    for encoding in BOTH {
        let mut dice = Dice(77);
        let sent: Vec<_> = (0..6).map(|time| (time, dice.unit(encoding))).collect();
        let all: Vec<_> = sent
            .iter()
            .flat_map(|(time, nals)| packets(encoding, nals, *time, 200))
            .collect();
        for lost in 0..all.len() {
            let mut packets: Vec<_> = all.iter().cloned().map(Some).collect();
            let time = packets[lost].take().unwrap().time;
            let (joined, refused) = join(encoding, &packets);
            assert_eq!(refused, 0);
            for unit in &joined {
                let whole = &sent[unit.time as usize].1;
                let is_whole = unit.nals == *whole;
                assert!(
                    is_whole || unit.time == time,
                    "{} after losing of {time}",
                    unit.time
                );
                assert!(
                    unit.nals.iter().all(|nal| whole.contains(nal)),
                    "a unit was made up"
                );
                assert!(
                    is_whole || unit.missing || lost + 1 == all.len(),
                    "not told: {lost}"
                );
            }
            let whole = joined
                .iter()
                .filter(|unit| unit.nals == sent[unit.time as usize].1);
            assert!(whole.count() >= sent.len() - 1);
        }
    }
}

#[test]
fn any_order_and_any_damage_harms_nothing_that_follows() {
    for encoding in BOTH {
        let mut dice = Dice(4242);
        let clean = dice.unit(encoding);
        for _ in 0..1000 {
            let mut depacketizer = depacketizer(encoding);
            let unit = dice.unit(encoding);
            let limit = 64 + dice.below(300);
            let mut hostile = packets(encoding, &unit, 0, limit);
            for _ in 0..1 + dice.below(10) {
                let (from, to) = (dice.below(hostile.len()), dice.below(hostile.len()));
                hostile.swap(from, to);
                let bytes = &mut hostile[to].bytes;
                match dice.below(4) {
                    0 => bytes.truncate(dice.below(6)),
                    1 if !bytes.is_empty() => {
                        let at = dice.below(bytes.len().min(6));
                        bytes[at] = dice.below(256) as u8;
                    }
                    2 => hostile[to].marker ^= true,
                    _ => hostile[to].time = dice.below(3) as u64,
                }
            }
            hostile.extend(packets(encoding, &clean, 10, 100));
            let packets: Vec<_> = hostile.into_iter().map(Some).collect();
            let (joined, _) = join_with(depacketizer.as_mut(), &packets);
            let last = joined.last().unwrap();
            assert_eq!((&last.nals, last.time), (&clean, 10));
        }
    }
}

#[test]
fn unit_without_marker_ends_with_its_time() {
    let nal = vec![0x65, 1];
    let mut sent = packets(Encoding::H264, std::slice::from_ref(&nal), 0, 64);
    sent[0].marker = false;
    sent.extend(packets(Encoding::H264, std::slice::from_ref(&nal), 9, 64));
    let (joined, _) = join(
        Encoding::H264,
        &sent.into_iter().map(Some).collect::<Vec<_>>(),
    );
    let times: Vec<_> = joined
        .iter()
        .map(|unit| (unit.time, unit.missing))
        .collect();
    assert_eq!(times, [(0, false), (9, false)]);
}

#[test]
fn parameter_sets_come_first_where_stream_has_none() {
    let parameters = "packetization-mode=1;sprop-parameter-sets=Z0IACpZTBYmI,aMljiA==";
    let slice = vec![0x65, 1];
    for (nals, count) in [
        (vec![slice.clone()], [3, 1]),
        (vec![vec![0x67, 1], slice], [2, 2]),
    ] {
        let mut sent = packets(Encoding::H264, &nals, 0, 64);
        sent.extend(packets(Encoding::H264, &nals, 1, 64));
        let sent: Vec<_> = sent.into_iter().map(Some).collect();
        let mut depacketizer = described(Encoding::H264, parameters);
        let (joined, _) = join_with(depacketizer.as_mut(), &sent);
        let counts: Vec<_> = joined.iter().map(|unit| unit.nals.len()).collect();
        assert_eq!(counts, count);
    }
    let interleaved = format(Encoding::H264, "packetization-mode=2");
    assert!(h264::Depacketizer::new(&interleaved).is_err());
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    for (payload, reason) in [
        (&[25, 0, 0, 0, 1, 0x65][..], "STAP-B"),
        (&[26, 0, 0], "MTAP"),
        (&[27, 0, 0], "MTAP"),
        (&[29, 0x85, 0, 0, 1], "FU-B"),
        (&[30, 0], "reserved"),
        (&[0, 0], "reserved"),
        (&[], "shorter"),
        (&[0xe5, 1], "forbidden"),
        (&[24, 0], "ends inside"),
        (&[24, 0, 2, 0x65], "ends inside"),
        (&[24, 0, 0], "something else"),
        (&[24, 0, 1, 0x18], "something else"),
        (&[24, 0, 1, 0x65, 0, 2, 0x41], "ends inside"),
        (&[28], "shorter"),
        (&[28, 0x85], "empty"),
        (&[28, 0xc5, 1], "first and last"),
        (&[28, 0x98, 1], "something else"),
    ] {
        let said = refusal(Encoding::H264, payload);
        assert!(said.contains(reason), "{payload:?}: {said}");
    }
    for (payload, reason) in [
        (&[0x64, 1, 0][..], "PACI"),
        (&[0x66, 1, 0], "reserved"),
        (&[0x60], "shorter"),
        (&[0x60, 1, 0, 1, 0x26], "something else"),
        (&[0x62, 1], "shorter"),
        (&[0x62, 1, 0xd3, 1], "first and last"),
        (&[0x62, 1, 0xb0, 1], "something else"),
    ] {
        let said = refusal(Encoding::H265, payload);
        assert!(said.contains(reason), "{payload:?}: {said}");
    }
}

#[test]
fn fragment_of_another_unit_is_refused_and_memory_has_a_limit() {
    let packet = |bytes: &[u8]| {
        Some(Packet {
            bytes: bytes.to_vec(),
            marker: false,
            time: 0,
        })
    };
    let (joined, refused) = join(
        Encoding::H264,
        &[packet(&[28, 0x85, 1]), packet(&[28, 0x41, 2])],
    );
    assert_eq!((joined, refused), (vec![], 1));

    let mut middle = vec![28, 0x05];
    middle.resize(60_000, 1);
    let mut packets = vec![packet(&[28, 0x85, 1])];
    packets.resize(100, packet(&middle));
    packets.push(packet(&[0x65, 7]));
    let (joined, refused) = join(Encoding::H264, &packets);
    assert_eq!(
        refused, 1,
        "the rest of a unit that is given up is passed over"
    );
    assert_eq!(
        joined,
        [Joined {
            nals: vec![vec![0x65, 7]],
            time: 0,
            missing: true
        }]
    );

    let packets = vec![packet(&[0x65, 7]); 300];
    let (joined, refused) = join(Encoding::H264, &packets);
    assert_eq!((joined[0].nals.len(), refused), (256, 44));
}
