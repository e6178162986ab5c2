//! Where a run's choices come from: a seed, or the bytes of a fuzzer.

use std::collections::VecDeque;

/// A stream of choices.
#[derive(Debug)]
pub(crate) enum Choices {
    /// The state of a splitmix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom
    /// number generators", 2014).
    Seed(u64),
    /// Bytes, the next one first; zeroes behind the last.
    Bytes(VecDeque<u8>),
}

impl Choices {
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.iter().copied().collect())
    }

    /// A number below `limit`; 0 if there is none.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        let drawn = match self {
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mixed = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
                (mixed ^ mixed >> 31) as u32
            }
            Self::Bytes(bytes) => {
                let needed = match limit {
                    0..=0x100 => 1,
                    0x101..=0x1_0000 => 2,
                    _ => 4,
                };
                (0..needed)
                    .map_while(|_| bytes.pop_front())
                    .fold(0, |number, byte| number << 8 | u32::from(byte))
            }
        };
        drawn.checked_rem(limit).unwrap_or(0)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.is_empty())
    }
}
