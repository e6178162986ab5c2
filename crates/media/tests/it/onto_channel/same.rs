//! What is published is what a file would get, bit for bit, whatever the network does.

use hythe_media::receive::stream::Stream;
use hythe_media::sink::Sink;
use hythe_rtp::format::Encoding;
use hythe_rtp::payload::Depacketize;

use super::media::{datagrams, datagrams_of, format, noise};
use super::stage::{Stage, host, into_memory};
use hythe_testing::Dice;

const MS: u64 = 1_000_000;

/// Some packets are lost, some come twice, and some are overtaken.
fn disturbed(datagrams: &[Vec<u8>], dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut disturbed = Vec::new();
    for datagram in datagrams {
        let times = match dice.below(100) {
            0..3 => 0,
            3..5 => 2,
            _ => 1,
        };
        disturbed.extend(std::iter::repeat_n(datagram.clone(), times));
    }
    for chunk in disturbed.chunks_mut(8) {
        let (one, other) = (dice.below(chunk.len()), dice.below(chunk.len()));
        chunk.swap(one, other);
    }
    disturbed
}

/// Feeds a stream to its end, and looks after its messages meanwhile.
fn feed<D: Depacketize, S: Sink>(
    stream: &mut Stream<D, S>,
    datagrams: &[Vec<u8>],
    mut look: impl FnMut(&mut Stream<D, S>),
) {
    let mut now_ns = 0;
    for datagram in datagrams {
        now_ns += 2 * MS;
        stream.take_datagram(datagram, host(), now_ns).unwrap();
        stream.expire(now_ns).unwrap();
        look(stream);
    }
    stream.finish(now_ns + 1_000 * MS).unwrap();
    look(stream);
}

#[test]
fn every_encoding_comes_through_bit_by_bit_in_place_and_copied() {
    for encoding in Encoding::ALL {
        let Some(stage) = Stage::new(encoding.name()) else {
            return;
        };
        let mut dice = Dice::new(encoding.name().len() as u64);
        let sent = datagrams(encoding, 300, &mut dice);
        let came = disturbed(&sent, &mut dice);
        let format = format(encoding);
        let mut expected = into_memory(&format);
        feed(&mut expected, &came, |_| {});
        let expected = &expected.sink().messages;
        assert!(expected.len() > 200, "{encoding:?}: {}", expected.len());
        for slots_max in [usize::MAX, 0] {
            let mut reader = stage.reader();
            let (mut stream, slots) = stage.stream(&format, slots_max);
            let mut messages = Vec::new();
            feed(&mut stream, &came, |_| messages.extend(reader.messages()));
            let is_same = messages == *expected;
            assert!(is_same, "{encoding:?}, at most {slots_max} slots");
            assert!(stream.statistics().lost > 0 && stream.statistics().reordered > 0);
            let counts = slots.counts();
            let all = expected.len() as u64;
            let is_copied = slots.slots_max() == 0;
            let in_place = if is_copied { 0 } else { all };
            let was = (counts.in_place, counts.copied, counts.dropped);
            assert_eq!(was, (in_place, all - in_place, 0), "{encoding:?}");
            drop((stream, reader, slots));
            assert_eq!(stage.slots_held(), 0);
        }
    }
}

#[test]
fn units_as_large_as_slots_are_moved_on_and_larger_ones_counted() {
    let Some(stage) = Stage::new("large") else {
        return;
    };
    let format = format(Encoding::H264);
    let mut dice = Dice::new(5);
    let mut slice = |bytes: usize| {
        let mut slice = noise(&mut dice, bytes);
        slice[0] = 0x65;
        slice
    };
    // The third is longer than the largest slot.
    let sizes: [&[usize]; 5] = [
        &[700_000],
        &[2_500_000, 900_000],
        &[4_000_000, 4_000_000],
        &[600_000],
        &[3000],
    ];
    let units = sizes.map(|sizes| sizes.iter().map(|bytes| slice(*bytes)).collect());
    let sent = datagrams_of(&format, &units);
    let mut reader = stage.reader();
    let (mut stream, slots) = stage.stream(&format, usize::MAX);
    let mut messages = Vec::new();
    feed(&mut stream, &sent, |_| messages.extend(reader.messages()));
    let expected: Vec<Vec<u8>> = units
        .iter()
        .map(|nals: &Vec<Vec<u8>>| {
            let parts = nals.iter().flat_map(|nal| [&[0, 0, 0, 1][..], nal]);
            parts.collect::<Vec<_>>().concat()
        })
        .collect();
    let expected = [&expected[..2], &expected[3..]].concat();
    assert!(messages == expected);
    let counts = slots.counts();
    assert_eq!((counts.in_place, counts.too_large), (4, 1), "{counts:?}");
    assert_eq!((counts.copied, counts.dropped), (0, 0));
    assert!(counts.moved_bytes > 0);
    drop((stream, reader, slots));
    assert_eq!(stage.slots_held(), 0);
}

#[test]
fn parameter_sets_precede_first_picture() {
    let Some(stage) = Stage::new("sets") else {
        return;
    };
    let mut format = format(Encoding::H264);
    format.parameters =
        "packetization-mode=1;sprop-parameter-sets=Z0IAKeKQFAe2AtwEBAaQeJEV,aM48gA==".into();
    let picture = |value: u8| vec![[vec![0x65], vec![value; 5000]].concat()];
    let sent = datagrams_of(&format, &[picture(1), picture(2)]);
    let mut expected = into_memory(&format);
    feed(&mut expected, &sent, |_| {});
    let mut reader = stage.reader();
    let (mut stream, slots) = stage.stream(&format, usize::MAX);
    feed(&mut stream, &sent, |_| {});
    let messages = reader.messages();
    assert!(messages == expected.sink().messages);
    assert!(messages[0].len() > messages[1].len(), "no sets");
    // They do not lie in front of the picture: that message is copied.
    assert_eq!((slots.counts().in_place, slots.counts().copied), (1, 1));
}
