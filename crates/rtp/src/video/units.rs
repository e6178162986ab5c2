//! The NAL units of one access unit, in memory that has a limit and is used again.
//!
//! Depacketizers join fragments in it, the Annex B source keeps in it what waits for its place in
//! display order.

use super::{Codec, Role};
use crate::unit::UnitMemory;

/// Longest NAL unit: a key frame of 8K video at 60 frames and 200 Mbit/s stays below.
pub const NAL_BYTES_MAX: usize = 4 << 20;
/// Most NAL units of an access unit: H.265 allows 200 slice segments up to level 5.2 (table A.8).
pub const NALS_MAX: usize = 256;
/// Most bytes of an access unit: four NAL units of the longest kind.
pub const UNIT_BYTES_MAX: usize = 4 * NAL_BYTES_MAX;
/// Most parameter sets that are put in front of a unit.
pub const SETS_MAX: usize = 64;

/// NAL units in order; the last may still be growing.
#[derive(Debug)]
pub struct NalUnits<M = Vec<u8>> {
    bytes: M,
    /// Where each complete one ends.
    ends: Vec<usize>,
    /// Laid down in front of each.
    front: &'static [u8],
}

impl Default for NalUnits {
    fn default() -> Self {
        Self::new(Vec::new(), &[])
    }
}

impl<M: UnitMemory> NalUnits<M> {
    /// None yet. In front of each, `memory` shall have the bytes of `front`, which do not belong to
    /// it.
    #[must_use]
    pub fn new(memory: M, front: &'static [u8]) -> Self {
        Self {
            bytes: memory,
            ends: Vec::new(),
            front,
        }
    }

    /// Forgets everything but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Is none complete?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all, also of the growing one, and of what is in front of each.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.bytes().len()
    }

    /// Adds a complete NAL unit; the growing one is dropped.
    ///
    /// # Errors
    ///
    /// The limit that it would break; nothing is added.
    pub fn push(&mut self, nal: &[u8]) -> Result<(), &'static str> {
        self.abandon();
        self.grow(nal)?;
        self.complete();
        Ok(())
    }

    /// Adds bytes to the growing NAL unit.
    ///
    /// # Errors
    ///
    /// The limit that they would break; the growing unit is dropped.
    pub fn grow(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let refused = if self.ends.len() == NALS_MAX {
            "an access unit has more than 256 NAL units"
        } else if self.growing().len() + bytes.len() > NAL_BYTES_MAX {
            "a NAL unit has more than 4 MiB"
        } else if self.len() + bytes.len() > UNIT_BYTES_MAX {
            "an access unit has more than 16 MiB"
        } else {
            if self.len() == self.end() {
                self.bytes.extend(self.front);
            }
            self.bytes.extend(bytes);
            return Ok(());
        };
        self.abandon();
        Err(refused)
    }

    /// What the growing NAL unit has so far; empty where none grows.
    #[must_use]
    pub fn growing(&self) -> &[u8] {
        let start = self.end() + self.front.len();
        self.bytes.bytes().get(start..).unwrap_or_default()
    }

    /// The growing NAL unit is complete.
    pub fn complete(&mut self) {
        if !self.growing().is_empty() {
            self.ends.push(self.len());
        }
    }

    /// Drops the growing NAL unit.
    pub fn abandon(&mut self) {
        self.bytes.truncate(self.end());
    }

    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The complete NAL units.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let (bytes, front) = (self.bytes.bytes(), self.front.len());
        starts
            .zip(&self.ends)
            .map(move |(from, to)| &bytes[from + front..*to])
    }
}

/// Hands `take` the pieces of a unit: `nals`, with `sets` in front where they lack a sequence
/// parameter set. An access unit delimiter stays first (H.264, section 7.4.1.2.3).
pub fn with_pieces<'n, T>(
    codec: Codec,
    sets: &'n [Vec<u8>],
    nals: impl Iterator<Item = &'n [u8]> + Clone,
    take: impl FnOnce(&[&'n [u8]]) -> T,
) -> T {
    let has_sets = |nal: &[u8]| codec.role(nal) == Role::SequenceSet;
    let sets = if nals.clone().any(has_sets) {
        &[]
    } else {
        sets
    };
    let is_delimiter = |nal: &&[u8]| codec.role(nal) == Role::Delimiter;
    let delimiter = nals.clone().next().filter(is_delimiter);
    let behind = nals.skip(usize::from(delimiter.is_some()));
    let sets = sets.iter().take(SETS_MAX).map(Vec::as_slice);
    let mut pieces: [&'n [u8]; NALS_MAX + SETS_MAX] = [&[]; NALS_MAX + SETS_MAX];
    let mut count = 0;
    let places = pieces.iter_mut();
    for (place, nal) in places.zip(delimiter.into_iter().chain(sets).chain(behind)) {
        *place = nal;
        count += 1;
    }
    take(&pieces[..count])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<M: UnitMemory>(units: &NalUnits<M>) -> Vec<Vec<u8>> {
        units.iter().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn what_does_not_complete_leaves_no_trace() {
        let mut units = NalUnits::default();
        units.push(&[1]).unwrap();
        units.grow(&[2, 3]).unwrap();
        units.abandon();
        units.grow(&[4]).unwrap();
        units.grow(&[5]).unwrap();
        assert_eq!(units.growing(), [4, 5]);
        units.complete();
        units.complete();
        assert_eq!(listed(&units), [vec![1], vec![4, 5]]);
    }

    #[test]
    fn prefix_units_belong_to_no_picture() {
        let mut units = NalUnits::new(Vec::new(), &[0, 0, 0, 1]);
        units.push(&[1]).unwrap();
        units.grow(&[2, 3]).unwrap();
        assert_eq!(units.growing(), [2, 3]);
        units.abandon();
        assert!(units.growing().is_empty());
        units.grow(&[4]).unwrap();
        units.grow(&[5]).unwrap();
        units.complete();
        assert_eq!(listed(&units), [vec![1], vec![4, 5]]);
        assert_eq!(units.bytes, [0, 0, 0, 1, 1, 0, 0, 0, 1, 4, 5]);
    }

    #[test]
    fn each_limit_is_named_and_nothing_is_kept_of_what_breaks_it() {
        let mut units = NalUnits::default();
        for _ in 0..NALS_MAX {
            units.push(&[1]).unwrap();
        }
        assert!(units.push(&[1]).unwrap_err().contains("256"));
        assert_eq!(units.len(), NALS_MAX);

        units.clear();
        let long = vec![1; NAL_BYTES_MAX];
        units.grow(&long).unwrap();
        assert!(units.grow(&[1]).unwrap_err().contains("4 MiB"));
        assert_eq!(units.len(), 0);
        for _ in 0..4 {
            units.push(&long).unwrap();
        }
        assert!(units.push(&[1]).unwrap_err().contains("16 MiB"));
        assert_eq!(units.iter().count(), 4);
    }

    #[test]
    fn sets_go_behind_the_delimiter_and_only_where_there_are_none() {
        let sets = [vec![0x67, 1], vec![0x68, 2]];
        let joined = |nals: &[&[u8]]| {
            with_pieces(Codec::H264, &sets, nals.iter().copied(), |pieces| {
                pieces.concat()
            })
        };
        assert_eq!(joined(&[&[9], &[0x65]]), [9, 0x67, 1, 0x68, 2, 0x65]);
        assert_eq!(joined(&[&[0x65]]), [0x67, 1, 0x68, 2, 0x65]);
        assert_eq!(joined(&[&[0x67, 7], &[0x65]]), [0x67, 7, 0x65]);
    }
}
