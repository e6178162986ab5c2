//! What one process writes and the other reads, by pieces that fit into the first cache.

use std::fmt;

use clap::ValueEnum;

use super::super::case::word;
use crate::payload::{fill, is_message};

/// Bytes of a piece.
pub(super) const PIECE: usize = 4096;

/// How much both sides do with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Payload {
    /// One word, stored all over; the sum of all words is checked. Hardly anything is computed, so
    /// it takes as long as the lines take to move.
    Stored,
    /// A stream of random words (SplitMix64), each computed by both sides and compared.
    Computed,
}

impl fmt::Display for Payload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&word(*self))
    }
}

/// The piece at `index` of message `number`.
pub(super) fn produce(payload: Payload, piece: &mut [u8], (number, index): (u64, u64)) {
    match payload {
        Payload::Stored => fill(piece, number),
        Payload::Computed => {
            let mut random = SplitMix64::of(number, index);
            for place in piece.chunks_exact_mut(8) {
                place.copy_from_slice(&random.next().to_le_bytes());
            }
        }
    }
}

/// Is it that piece?
pub(super) fn is_piece(payload: Payload, piece: &[u8], (number, index): (u64, u64)) -> bool {
    match payload {
        Payload::Stored => is_message(piece, number),
        Payload::Computed => {
            let mut random = SplitMix64::of(number, index);
            let words = piece.chunks_exact(8);
            words.fold(true, |same, word| {
                same & (word == random.next().to_le_bytes())
            })
        }
    }
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    const fn of(number: u64, index: u64) -> Self {
        Self(number.rotate_left(32) ^ index)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_piece_and_every_changed_byte_are_noticed() {
        let mut piece = [0; 64];
        for payload in [Payload::Stored, Payload::Computed] {
            produce(payload, &mut piece, (7, 1));
            assert!(is_piece(payload, &piece, (7, 1)));
            assert!(!is_piece(payload, &piece, (8, 1)));
            for index in 0..piece.len() {
                piece[index] ^= 1;
                assert!(!is_piece(payload, &piece, (7, 1)), "{payload:?} {index}");
                piece[index] ^= 1;
            }
        }
        assert!(!is_piece(Payload::Computed, &piece, (7, 2)));
    }
}
