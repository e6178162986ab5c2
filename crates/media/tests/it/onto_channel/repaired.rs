//! What was lost and repaired, by packets sent again and by parity, is published in its place.

use hythe_media::receive::repairer::Repairer;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::loss::fec::encoder::Format;
use hythe_rtp::loss::fec::{Encoder, Protection, Shape};
use hythe_rtp::sdp::{Parity, Retransmission, StreamDescription};

use super::media::{datagrams, format};
use super::stage::{Onto, Stage, host, into_memory};
use hythe_testing::Dice;

const MS: u64 = 1_000_000;
const RESENT_TYPE: u8 = 98;
const RESENT_SSRC: u32 = 8;
/// Columns and rows of a matrix of parity.
const SIDE: u8 = 5;

/// A packet as it is sent again (RFC 4588, section 4).
fn again(datagram: &[u8], sequence: u16) -> Vec<u8> {
    let (header, payload) = datagram.split_at(12);
    let mut header = header.to_vec();
    header[1] = header[1] & 0x80 | RESENT_TYPE;
    let original = [header[2], header[3]];
    header[2..4].copy_from_slice(&sequence.to_be_bytes());
    header[8..12].copy_from_slice(&RESENT_SSRC.to_be_bytes());
    [&header, &original[..], payload].concat()
}

/// The media, with the parity that follows each packet.
fn protected(sent: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let shape = Shape::new(SIDE, SIDE).unwrap();
    let mut encoder = Encoder::new(Format::Smpte2022, shape, Protection::Both, 1400, 0).unwrap();
    let protect = |datagram: &Vec<u8>| {
        let (header, body) = datagram.split_first_chunk().unwrap();
        let mut parity = Vec::new();
        let pushed = encoder.push(header, &[body], &mut |made| {
            parity.push([made.header, made.payload].concat());
        });
        assert_eq!(pushed, Ok(()));
        (datagram.clone(), parity)
    };
    sent.iter().map(protect).collect()
}

/// A stream whose packets are sent again, and protected by parity.
fn described(format: &StreamFormat) -> StreamDescription {
    let shape = Shape::new(SIDE, SIDE).unwrap();
    StreamDescription {
        retransmission: Some(Retransmission {
            payload_type: RESENT_TYPE,
            time_ms: None,
        }),
        parity: Some(Parity::Smpte2022(shape, Protection::Both)),
        ..StreamDescription::new(format.clone(), host())
    }
}

/// In turns two matrices of which parity repairs what is lost, and as much in which whole bursts
/// are lost, which come again.
fn feed(stream: &mut Onto, sent: &[Vec<u8>], mut look: impl FnMut()) {
    let (mut now_ns, mut resent) = (0, 0);
    for (index, (datagram, parity)) in protected(sent).iter().enumerate() {
        now_ns += MS;
        let is_for_parity = (index / 50).is_multiple_of(2);
        let is_lost = match is_for_parity {
            true => index % 7 == 3,
            false => index % 20 < 6,
        };
        // The first ones show that there is a stream.
        if index < 4 || !is_lost {
            stream.take_datagram(datagram, host(), now_ns).unwrap();
        }
        for parity in parity.iter().filter(|_| is_for_parity) {
            stream.take_parity(parity, host(), now_ns).unwrap();
        }
        if !is_for_parity && index % 20 == 8 {
            for late in &sent[index - 8..index - 2] {
                let again = again(late, resent);
                stream.take_datagram(&again, host(), now_ns).unwrap();
                resent += 1;
            }
        }
        stream.expire(now_ns).unwrap();
        look();
    }
    stream.finish(now_ns + 1000 * MS).unwrap();
    look();
}

#[test]
fn what_is_repaired_is_published_bit_by_bit() {
    let Some(stage) = Stage::new("repaired") else {
        return;
    };
    let format = format(Encoding::MpegTs);
    let sent = datagrams(Encoding::MpegTs, 1000, &mut Dice::new(8));
    let mut complete = into_memory(&format);
    for datagram in &sent {
        complete.take_datagram(datagram, host(), 0).unwrap();
    }
    let expected = &complete.sink().messages;
    assert_eq!(expected.len(), 1000);
    for slots_max in [usize::MAX, 0] {
        let mut reader = stage.reader();
        let (stream, slots) = stage.stream(&format, slots_max);
        let repairer = Repairer::new(&described(&format)).unwrap();
        let mut stream = stream.with_repair(Box::new(repairer));
        let mut messages = Vec::new();
        feed(&mut stream, &sent, || messages.extend(reader.messages()));
        let statistics = stream.statistics();
        let by_resending = statistics.recovered - statistics.recovered_by_parity;
        assert!(
            statistics.recovered_by_parity > 20 && by_resending > 20,
            "{statistics:?}"
        );
        // A matrix may have lost more than parity knows; what is there is in order and unchanged.
        let missing = usize::try_from(statistics.lost).unwrap();
        assert_eq!(messages.len() + missing, expected.len());
        let mut rest = expected.iter();
        let is_next = |message| rest.by_ref().any(|other| other == message);
        assert!(messages.iter().all(is_next));
        let in_place = match slots.slots_max() {
            0 => 0,
            _ => messages.len() as u64,
        };
        assert_eq!(slots.counts().in_place, in_place);
        drop((stream, reader, slots));
        assert_eq!(stage.slots_held(), 0);
    }
}
