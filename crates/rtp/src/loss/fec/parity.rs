//! The arithmetic of parity: XOR of what RTP packets consist of, over a set of packets.
//!
//! RFC 2733, 5109 and SMPTE ST 2022-1 protect the same: the flags, the marker and payload type, the
//! timestamp, the length, and everything behind the first twelve bytes of a packet, shorter packets
//! as if zeroes followed. The sequence number follows from which packet is missing, the source from
//! the stream.

use crate::loss::{RTP_HEADER_BYTES, be16};

/// Bits of a packet's first byte that are protected: padding, extension, number of contributing
/// sources.
const FLAGS: u8 = 0x3f;

/// The fixed fields of a packet, or the XOR of those of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery(pub(super) u64);

impl Recovery {
    /// Of a packet that starts with `header` and has `length` bytes behind it.
    #[must_use]
    pub fn of(header: &[u8; RTP_HEADER_BYTES], length: u16) -> Self {
        let [flags, kind, _, _, t0, t1, t2, t3, ..] = *header;
        let [l0, l1] = length.to_be_bytes();
        Self::from_fields([flags, kind, t0, t1, t2, t3, l0, l1])
    }

    /// From bytes in this order: flags; marker and payload type; timestamp; length.
    #[must_use]
    pub fn from_fields(fields: [u8; 8]) -> Self {
        let [flags, rest @ ..] = fields;
        let [a, b, c, d, e, f, g] = rest;
        Self(u64::from_be_bytes([flags & FLAGS, a, b, c, d, e, f, g]))
    }

    /// The fields, as [`Self::from_fields`] takes them.
    #[must_use]
    pub fn fields(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Bytes behind the header.
    #[must_use]
    pub fn length(self) -> u16 {
        be16(&self.fields(), 6)
    }

    /// Adds another, or takes it away: that is the same.
    pub fn add(&mut self, other: Self) {
        self.0 ^= other.0;
    }
}

/// Which packets a parity packet covers: a number, and which of the 128 from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// The first of them.
    pub base: u16,
    /// Bit `i` stands for `base + i`. Never 0, and bit 0 is set unless a peer chose otherwise.
    pub offsets: u128,
}

impl Members {
    /// `count` packets from `base` on, `step` apart; together they span 128 numbers at most.
    #[must_use]
    pub fn stride(base: u16, step: usize, count: usize) -> Self {
        let offsets = (0..count).fold(0, |offsets, index| offsets | 1 << (index * step));
        Self { base, offsets }
    }
}

/// A parity packet as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'p> {
    /// What it covers.
    pub members: Members,
    /// XOR of the fixed fields.
    pub recovery: Recovery,
    /// XOR of what follows.
    pub payload: &'p [u8],
}

/// A parity packet that is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parity packet: {0}")]
pub struct BadParity(pub &'static str);

/// Adds `source` to as much of `target` as there is.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    for (sum, byte) in target.iter_mut().zip(source) {
        *sum ^= byte;
    }
}

/// The sum over the packets so far.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) base: u16,
    pub(crate) recovery: Recovery,
    /// What follows the headers; only the first `bytes` mean something.
    payload: Box<[u8]>,
    bytes: usize,
}

impl Sum {
    pub(crate) fn new(payload_bytes_max: usize) -> Self {
        Self {
            base: 0,
            recovery: Recovery::default(),
            payload: vec![0; payload_bytes_max].into_boxed_slice(),
            bytes: 0,
        }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload[..self.bytes]
    }

    /// Begins anew with the packet `base`.
    pub(crate) fn restart(&mut self, base: u16) {
        (self.base, self.bytes) = (base, 0);
        self.recovery = Recovery::default();
    }

    /// Adds a packet whose body, in pieces, the caller has checked to fit.
    pub(crate) fn add(&mut self, recovery: Recovery, body: &[&[u8]]) {
        self.recovery.add(recovery);
        let mut at = 0;
        for piece in body {
            let (common, new) = piece.split_at(piece.len().min(self.bytes.saturating_sub(at)));
            xor_into(&mut self.payload[at..], common);
            at += common.len();
            // Nothing was here yet: a copy is the sum, and spares clearing.
            self.payload[at..at + new.len()].copy_from_slice(new);
            at += new.len();
            self.bytes = self.bytes.max(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_fields_are_flags_type_timestamp_and_length() {
        let header = [0xb1, 0xe0, 0x99, 0x99, 1, 2, 3, 4, 9, 9, 9, 9];
        let mut recovery = Recovery::of(&header, 0x0506);
        assert_eq!(recovery.fields(), [0x31, 0xe0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(recovery.length(), 0x0506);
        recovery.add(recovery);
        assert_eq!(recovery, Recovery::default());
    }

    #[test]
    fn sum_is_as_if_zeroes_followed_the_shorter_ones() {
        let bodies: [&[&[u8]]; 4] = [
            &[&[1, 2], &[3]],
            &[&[1], &[2, 3, 4, 5]],
            &[],
            &[&[], &[7, 7, 7, 7]],
        ];
        let mut sum = Sum::new(5);
        // Twice: what an earlier sum left behind is not seen.
        for _ in 0..2 {
            sum.restart(3);
            for body in bodies {
                sum.add(Recovery::default(), body);
            }
            assert_eq!(sum.payload(), [7, 7, 7, 3, 5]);
        }
    }

    #[test]
    fn strides_are_bits() {
        assert_eq!(Members::stride(9, 1, 4).offsets, 0b1111);
        assert_eq!(Members::stride(9, 5, 3).offsets, 0b100_0010_0001);
        assert_eq!(Members::stride(9, 20, 5).offsets.trailing_zeros(), 0);
        assert_eq!(Members::stride(9, 20, 5).offsets.ilog2(), 80);
    }
}
