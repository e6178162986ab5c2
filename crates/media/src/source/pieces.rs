//! Where the list of a unit's pieces lives while the caller has the unit.
//!
//! A [`Unit`](hythe_rtp::unit::Unit) borrows a slice of slices. The bytes stay in the source's
//! window; the list of them has to stand somewhere too, and a struct cannot hold a list of slices
//! of itself. A bump allocator that the source owns can: emptied before each unit, it keeps its
//! memory, so nothing is allocated once the longest list was seen.

use bumpalo::Bump;

/// Space for the pieces of one unit.
#[derive(Debug, Default)]
pub(super) struct Pieces(Bump);

impl Pieces {
    /// The list of these pieces. The list made before is gone.
    pub(super) fn list<'p>(&'p mut self, pieces: &[&'p [u8]]) -> &'p [&'p [u8]] {
        self.0.reset();
        self.0.alloc_slice_copy(pieces)
    }
}
