//! Units that own their bytes, for sources that have one before they are asked for it: read in
//! another thread, or to find out whether there is one.

use hythe_rtp::unit::Unit;

use super::pieces::Pieces;

/// A unit that owns its bytes.
#[derive(Debug)]
pub(super) struct Owned {
    bytes: Vec<u8>,
    /// Where each piece ends.
    ends: Vec<usize>,
    time: u64,
    due: u64,
    duration: u32,
    is_start: bool,
}

impl Owned {
    /// A copy of `unit`.
    pub(super) fn of(unit: &Unit<'_>) -> Self {
        let mut bytes = Vec::with_capacity(unit.len());
        let ends = unit.pieces.iter().map(|piece| {
            bytes.extend_from_slice(piece);
            bytes.len()
        });
        Self {
            ends: ends.collect(),
            bytes,
            time: unit.time,
            due: unit.due,
            duration: unit.duration,
            is_start: unit.is_start,
        }
    }

    /// Its bytes, all pieces together.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The unit, its list of pieces in `pieces`.
    pub(super) fn lend<'u>(&'u self, pieces: &'u mut Pieces) -> Unit<'u> {
        let mut start = 0;
        let list: Vec<&[u8]> = self
            .ends
            .iter()
            .map(|end| &self.bytes[std::mem::replace(&mut start, *end)..*end])
            .collect();
        Unit {
            pieces: pieces.list(&list),
            time: self.time,
            due: self.due,
            duration: self.duration,
            is_start: self.is_start,
        }
    }
}
