//! Which packets were given up: the last gaps by number, for whoever has to say what is missing.
//!
//! [`reorder`](crate::receive::reorder) enters each number once, in ascending order. Pure; nothing
//! is allocated after it was made.

use std::collections::VecDeque;

/// Most gaps that are named; older ones are in the count only.
pub const GAPS_MAX: usize = 64;

/// Packets that follow each other and were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Extended number of the first; its low 16 bits are those of the RTP header.
    pub first: u64,
    /// How many.
    pub packets: u64,
}

/// The last gaps.
#[derive(Clone, Debug)]
pub struct Gaps(VecDeque<Gap>);

impl Gaps {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self(VecDeque::with_capacity(GAPS_MAX))
    }

    /// `packets` are given up, from `first` on.
    pub fn lost(&mut self, first: u64, packets: u64) {
        if let Some(last) = self.0.back_mut()
            && last.first.checked_add(last.packets) == Some(first)
        {
            last.packets = last.packets.saturating_add(packets);
            return;
        }
        if self.0.len() == GAPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Gap { first, packets });
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.0.iter()
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_gap_and_the_last_are_named() {
        let mut gaps = Gaps::new();
        gaps.lost(0xffff, 1);
        gaps.lost(0x1_0000, 2);
        gaps.lost(0x1_0003, 1);
        let named: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.packets)).collect();
        assert_eq!(named, [(0xffff, 3), (0x1_0003, 1)]);
        for index in 0..GAPS_MAX as u64 {
            gaps.lost(0x2_0000 + 2 * index, 1);
        }
        let named: Vec<_> = gaps.iter().map(|gap| gap.first).collect();
        let expected: Vec<_> = (0..GAPS_MAX as u64)
            .map(|index| 0x2_0000 + 2 * index)
            .collect();
        assert_eq!(named, expected);
        gaps.lost(u64::MAX, u64::MAX);
        gaps.lost(0, 1);
        assert_eq!(gaps.iter().count(), GAPS_MAX);
    }
}
