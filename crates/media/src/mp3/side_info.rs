//! The side information of a layer III frame, as far as it decides about synchronisation.
//!
//! minimp3 starts over when the side information of a frame contradicts itself, and then wants ten
//! consistent headers again instead of one. The splitter has to know when that happens.

use hythe_rtp::mpeg_audio::{HEADER_BYTES, Header, Version};

/// More big-value pairs than a granule can have (576 / 2).
const MOST_BIG_VALUES: u32 = 288;

/// Whether a decoder accepts the side information of `frame`, a whole layer III frame that starts
/// with `header`.
pub(super) fn is_sound(header: Header, frame: &[u8]) -> bool {
    let mut bits = Bits {
        bytes: &frame[HEADER_BYTES..],
        position: 0,
    };
    if header.has_crc() {
        bits.take(16);
    }
    let is_mpeg1 = header.version() == Version::Mpeg1;
    let granule_parts = if header.channels() == 1 { 1 } else { 2 };
    let (reservoir_bytes, parts) = if is_mpeg1 {
        let begin = bits.take(9);
        bits.take(7 + 2 * granule_parts);
        (begin, 2 * granule_parts)
    } else {
        (bits.take(8 + granule_parts) >> granule_parts, granule_parts)
    };

    let mut main_data_bits = 0;
    for _ in 0..parts {
        match part_bits(&mut bits, is_mpeg1) {
            Some(length) => main_data_bits += length as usize,
            None => return false,
        }
    }
    let limit = bits.bytes.len() * 8;
    main_data_bits + bits.position <= limit + reservoir_bytes as usize * 8 && bits.position <= limit
}

/// Reads one granule of one channel and returns the length of its main data in bits.
fn part_bits(bits: &mut Bits<'_>, is_mpeg1: bool) -> Option<u32> {
    let length = bits.take(12);
    if bits.take(9) > MOST_BIG_VALUES {
        return None;
    }
    bits.take(8); // global gain
    bits.take(if is_mpeg1 { 4 } else { 9 }); // scale factor compression
    if bits.take(1) == 1 {
        if bits.take(2) == 0 {
            return None; // a switched window of the normal type
        }
        bits.take(1 + 10 + 9); // mixed block, two tables, three subblock gains
    } else {
        bits.take(15 + 7); // three tables, two region counts
    }
    bits.take(if is_mpeg1 { 3 } else { 2 }); // pre-emphasis (MPEG-1), scale, count1 table
    Some(length)
}

/// Reads bits, most significant first; zeros behind the end, where the position still advances.
struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> u32 {
        let start = self.position;
        self.position += count as usize;
        if self.position > self.bytes.len() * 8 {
            return 0;
        }
        (start..self.position).fold(0, |value, bit| {
            value << 1 | u32::from(self.bytes[bit / 8] >> (7 - bit % 8) & 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(side_info: &[u8]) -> (Header, Vec<u8>) {
        let mut bytes = vec![0xff, 0xfb, 0x90, 0x64];
        bytes.extend_from_slice(side_info);
        bytes.resize(417, 0);
        (Header::parse(&bytes).unwrap(), bytes)
    }

    #[test]
    fn silence_is_sound() {
        let (header, bytes) = frame(&[]);
        assert!(is_sound(header, &bytes));
    }

    #[test]
    fn contradictions_are_not() {
        // 20 bits of prologue, 12 of length, then 9 bits of big values: all ones.
        let (header, bytes) = frame(&[0, 0, 0, 0, 0xff, 0x80]);
        assert!(!is_sound(header, &bytes));
        // Window switching (bit 53) with block type 0.
        let (header, bytes) = frame(&[0, 0, 0, 0, 0, 0, 0b0000_0100, 0]);
        assert!(!is_sound(header, &bytes));
        // More main data than frame and reservoir hold.
        let (header, bytes) = frame(&[0, 0, 0x0f, 0xff]);
        assert!(!is_sound(header, &bytes));
    }

    #[test]
    fn frame_too_short_for_its_side_information_is_not() {
        let bytes = [0xff, 0xfb, 0x10, 0x64, 0, 0, 0, 0];
        assert!(!is_sound(Header::parse(&bytes).unwrap(), &bytes));
    }
}
