//! Hold records: how many references to a slot a participant answers for, and since when.
//!
//! A process's row is written by that process only (after its death, by its recoverer). The row of a core's endpoint is written
//! by whoever gives to it or takes from it, by counted cell changes. Both have the form of [`Counted`], with the moment of the
//! first hold in the upper bits.

use hythe_abi::pool::REFERENCES_MAX;
use hythe_memory::{Memory, Ordering};

use crate::cell::Counted;
use crate::control::Control;
use crate::ledger::LedgerSlot;

/// Reads a hold record.
#[inline(always)]
pub(crate) fn hold<M: Memory>(control: &Control<M>, row: u8, slot: LedgerSlot) -> Counted {
    let at = control.layout().hold(row.into(), slot.0 as usize);
    Counted::from_bits(control.memory().load_cell(at, Ordering::Acquire))
}

/// Writes an own hold record.
#[inline(always)]
pub(crate) fn set_hold<M: Memory>(control: &Control<M>, row: u8, slot: LedgerSlot, hold: Counted) {
    let at = control.layout().hold(row.into(), slot.0 as usize);
    control
        .memory()
        .store_cell(at, hold.to_bits(), Ordering::Release);
}

impl Counted {
    /// With `more` references; dated `now` if there were none.
    #[inline]
    pub(crate) const fn gained(self, more: u32, now: u32) -> Option<Self> {
        // In a dead member's journal anything may stand.
        let count = self.count.saturating_add(more);
        if count > REFERENCES_MAX {
            return None;
        }
        let upper = if self.count == 0 { now } else { self.upper };
        Some(Self {
            count,
            upper,
            ..self
        })
    }

    /// With `fewer` references.
    #[inline]
    pub(crate) const fn lost(self, fewer: u32) -> Option<Self> {
        if self.count < fewer {
            return None;
        }
        Some(Self {
            count: self.count - fewer,
            ..self
        })
    }
}
