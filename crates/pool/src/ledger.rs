//! The ledger: for each slot a counted cell with its references and its generation, and for each
//! participant a hold record: how many of these references it answers for, and since when.
//!
//! A process's row of hold records is written by that process only (after its death, by its
//! recoverer). The row of a core's endpoint is written by whoever gives to it or takes from it, by
//! counted cell changes. Both have the form of [`Counted`], with the moment of the first hold in
//! the upper bits. Cells are changed by the steps of a [`Member`](crate::Member), never here.

use hythe_abi::Generation;
use hythe_memory::{Memory, Ordering};

use crate::PoolError;
use crate::control::Control;
use crate::counted::Counted;
use crate::tables::members::MemberIndex;

/// Index of a slot in the ledger, over all regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerSlot(pub u32);

/// The ledger of a control file.
#[derive(Debug)]
pub struct Ledger<'c, M> {
    control: &'c Control<M>,
}

impl<M> Clone for Ledger<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Ledger<'_, M> {}

impl<M> Control<M> {
    /// Its ledger.
    #[inline(always)]
    pub const fn ledger(&self) -> Ledger<'_, M> {
        Ledger { control: self }
    }
}

impl<M: Memory> Ledger<'_, M> {
    /// References to a slot, and its generation.
    ///
    /// # Panics
    /// If the slot is outside the ledger.
    #[inline(always)]
    pub fn slot(self, slot: LedgerSlot) -> (u32, Generation) {
        let found = Counted::from_bits(
            self.control
                .memory()
                .load_cell(self.slot_at(slot), Ordering::Acquire),
        );
        (found.count, Generation(found.upper))
    }

    /// How many of the `count` slots from `first` on are free, counted up to `enough`: the count
    /// stops there. A snapshot: others lease and release meanwhile.
    ///
    /// # Panics
    /// If a slot is outside the ledger.
    #[must_use]
    pub fn free_slots(self, first: LedgerSlot, count: u32, enough: u32) -> u32 {
        let mut free = 0;
        for slot in first.0..first.0 + count {
            if free == enough {
                break;
            }
            free += u32::from(self.slot(LedgerSlot(slot)).0 == 0);
        }
        free
    }

    /// References to a slot that a participant holds, by its own record.
    ///
    /// # Panics
    /// If the slot is outside the ledger.
    #[must_use]
    #[inline]
    pub fn held_by(self, member: MemberIndex, slot: LedgerSlot) -> u32 {
        self.hold(member, slot).count
    }

    #[inline(always)]
    pub(crate) fn slot_at(self, slot: LedgerSlot) -> usize {
        assert!(
            slot.0 < self.control.layout().limits().slots,
            "slot {} is outside the ledger",
            slot.0
        );
        self.control.layout().slot_cell(slot.0 as usize)
    }

    /// Reads a hold record.
    #[inline(always)]
    pub(crate) fn hold(self, row: MemberIndex, slot: LedgerSlot) -> Counted {
        let at = self.control.layout().hold(row.0.into(), slot.0 as usize);
        Counted::from_bits(self.control.memory().load_cell(at, Ordering::Acquire))
    }

    /// References that a participant holds on a slot.
    pub fn holds(self, row: MemberIndex, slot: LedgerSlot) -> u32 {
        self.hold(row, slot).count
    }

    /// Writes an own hold record.
    #[inline(always)]
    pub(crate) fn set_hold(self, row: MemberIndex, slot: LedgerSlot, hold: Counted) {
        let at = self.control.layout().hold(row.0.into(), slot.0 as usize);
        self.control
            .memory()
            .store_cell(at, hold.to_bits(), Ordering::Release);
    }
}

#[cold]
pub(crate) fn contended(slot: LedgerSlot) -> PoolError {
    PoolError::Damaged(format!("the cell of slot {} never stands still", slot.0))
}
