//! Streams of RTP packets that differ in everything that may differ.

use hythe_rtp::loss::fec::predict::Chance;

/// Most bytes behind the twelve of the header.
pub(crate) const BODY_BYTES_MAX: u16 = 200;

/// `count` packets from the number `first` on: sizes, markers, payload types and times by `seed`;
/// some with contributing sources, an extension or padding.
pub(crate) fn packets(first: u16, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut chance = Chance::new(seed);
    let sequences = (0..count).map(|index| first.wrapping_add(index as u16));
    sequences
        .map(|sequence| packet(sequence, &mut chance))
        .collect()
}

fn packet(sequence: u16, chance: &mut Chance) -> Vec<u8> {
    let random = chance.number();
    let [marker, flags, time @ ..] = random.to_be_bytes();
    let kind = if marker % 4 == 0 { 0x80 } else { 0 } | if marker < 128 { 33 } else { 96 };
    let [s0, s1] = sequence.to_be_bytes();
    let mut bytes = vec![
        0x80, kind, s0, s1, time[0], time[1], time[2], time[3], 0xde, 0xad, 0xbe, 0xef,
    ];
    let body_bytes = chance.number() as usize % (usize::from(BODY_BYTES_MAX) - 40);
    if flags % 8 == 1 {
        bytes[0] |= 2;
        bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    }
    if flags % 8 == 2 {
        bytes[0] |= 0x10;
        bytes.extend_from_slice(&[0xbe, 0xde, 0, 1, 0x10, time[4], 0, 0]);
    }
    bytes.extend((0..body_bytes).map(|_| chance.number() as u8));
    if flags % 8 == 3 {
        bytes[0] |= 0x20;
        bytes.extend_from_slice(&[0, 0, 3]);
    }
    bytes
}
