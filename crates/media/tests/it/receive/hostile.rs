//! Packets of those who wish us ill: nothing panics, nothing grows, an honest stream comes through.

use std::net::SocketAddr;

use hythe_media::receive::repairer::Repairer;
use hythe_media::receive::stream::Settings;
use hythe_rtp::Identity;
use hythe_rtp::loss::fec::encoder::Format;
use hythe_rtp::loss::fec::{Encoder, Protection, Shape};
use hythe_rtp::receive::requests::Limits;
use hythe_rtp::rtcp::{Counts, Reports};
use hythe_rtp::sdp::{Parity, Retransmission, StreamDescription};

use hythe_testing::Dice;

use crate::passing::{format, packet, stream};

fn settings() -> Settings {
    Settings {
        requests: Some(Limits::default()),
        packets_max: 64,
        buffer_bytes: 3 << 16,
        ..Settings::default()
    }
}

fn reports(identity: &Identity) -> Vec<u8> {
    let counts = Counts {
        unix_ns: u64::MAX / 2,
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

/// A datagram that is nearly right: honest ones with bytes changed, cut, or made longer.
fn nearly(random: &mut Dice, honest: &[Vec<u8>]) -> Vec<u8> {
    let mut datagram = honest[random.below(honest.len())].clone();
    for _ in 0..random.below(4) {
        let at = random.below(datagram.len().min(40));
        datagram[at] = random.number() as u8;
    }
    match random.below(8) {
        0 => datagram.truncate(random.below(datagram.len() + 1)),
        1 => datagram.resize(datagram.len() + random.below(200), random.number() as u8),
        _ => {}
    }
    datagram
}

/// A stream whose packets are sent again, and protected by parity.
fn described() -> StreamDescription {
    let shape = Shape::new(4, 4).unwrap();
    StreamDescription {
        retransmission: Some(Retransmission {
            payload_type: 98,
            time_ms: None,
        }),
        parity: Some(Parity::Smpte2022(shape, Protection::Both)),
        ..StreamDescription::new(format(96, 8000), SocketAddr::from(([10, 0, 0, 1], 5004)))
    }
}

/// The parity of packets as if their numbers followed each other.
fn parity(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let shape = Shape::new(4, 4).unwrap();
    let mut encoder = Encoder::new(Format::Smpte2022, shape, Protection::Both, 100, 0).unwrap();
    let mut parity = Vec::new();
    for (sequence, packet) in (0_u16..).zip(packets) {
        let (header, body) = packet.split_first_chunk().unwrap();
        let mut header = *header;
        header[2..4].copy_from_slice(&sequence.to_be_bytes());
        let pushed = encoder.push(&header, &[body], &mut |made| {
            parity.push([made.header, made.payload].concat());
        });
        assert_eq!(pushed, Ok(()));
    }
    assert!(!parity.is_empty());
    parity
}

#[test]
fn any_input_is_taken_without_harm() {
    let identity = Identity::seeded(11);
    let mut honest: Vec<Vec<u8>> = (0..40)
        .map(|sequence| packet(identity.ssrc, sequence * 3, &[5; 30]))
        .collect();
    honest.push(reports(&identity));
    for sequence in 0..40 {
        let mut again = packet(9, sequence, &[&[0, sequence as u8][..], &[5; 30]].concat());
        again[1] = 98;
        honest.push(again);
    }
    honest.extend(parity(&honest[..40]));
    for seed in 0..60 {
        let mut random = Dice::new(seed);
        let repairer = Repairer::new(&described()).unwrap();
        let mut stream = stream(settings(), 0).with_repair(Box::new(repairer));
        let mut now_ns = 0;
        let mut sent_bytes = 0;
        let mut received_bytes = 0;
        for _ in 0..3000 {
            let datagram = nearly(&mut random, &honest);
            let source = SocketAddr::from(([10, 0, 0, random.below(3) as u8], 5004));
            now_ns += random.number() % 10_000_000;
            if random.below(3) == 0 {
                stream.take_rtcp(&datagram, source, now_ns);
            } else if random.below(3) == 0 {
                stream.take_parity(&datagram, source, now_ns).unwrap();
            } else {
                received_bytes += datagram.len();
                stream.take_datagram(&datagram, source, now_ns).unwrap();
            }
            stream.expire(now_ns).unwrap();
            if let Some((report, to)) = stream.report(now_ns).unwrap() {
                sent_bytes += report.len();
                assert_eq!(to.ip().to_string().split_at(7).0, "10.0.0.", "seed {seed}");
            }
        }
        stream.finish(now_ns).unwrap();
        // The share of RTCP, its allowance of 2,000 bytes a second, and what was saved up.
        let allowed = received_bytes / 20 + now_ns as usize / 500_000 + 2_000;
        assert!(
            sent_bytes <= allowed,
            "seed {seed}: {sent_bytes} of {allowed}"
        );
    }
}

#[test]
fn honest_stream_comes_through_a_flood() {
    let identity = Identity::seeded(11);
    let mut random = Dice::new(77);
    let mut stream = stream(settings(), 0);
    let good = SocketAddr::from(([10, 0, 0, 1], 5004));
    let mut expected = Vec::new();
    for sequence in 0..2000_u16 {
        let now_ns = u64::from(sequence) * 20_000_000;
        stream
            .take_datagram(
                &packet(identity.ssrc, sequence, &[sequence as u8 & 0x7f]),
                good,
                now_ns,
            )
            .unwrap();
        expected.push(sequence as u8 & 0x7f);
        // Before anybody is followed, lies may cost the honest one its first packet, which is kept
        // until the second came.
        for _ in 0..if sequence == 0 { 0 } else { 10 } {
            // The right SSRC and numbers, or others, from elsewhere; goodbyes and reports for it.
            let bad = SocketAddr::from((
                [10, 0, 1, random.number() as u8],
                random.number() as u16 | 1,
            ));
            let ssrc = if random.below(2) == 0 {
                identity.ssrc
            } else {
                random.number() as u32
            };
            let lie = packet(ssrc, sequence + 1 + random.below(3) as u16, &[9; 9]);
            stream.take_datagram(&lie, bad, now_ns).unwrap();
            stream.take_rtcp(&reports(&identity), bad, now_ns);
        }
        if let Some((_, to)) = stream.report(now_ns).unwrap() {
            assert_eq!(to.ip(), good.ip());
        }
    }
    assert!(stream.sink().bytes == expected);
    assert_eq!(stream.goodbye_ns(), None);
    let statistics = stream.statistics();
    assert_eq!((statistics.lost, statistics.foreign), (0, 19_990));
    assert_eq!((statistics.restarts, statistics.sender_reports), (0, 0));
}
