//! A counter that several participants change, and of which each can say after a crash whether its
//! last change happened.
//!
//! The cell carries, beside the count, the mark of its last change: who, the low 19 bits of the
//! number of its step, and whether it was a lease. Before anyone replaces another's mark, it looks
//! into that participant's journal; if the step stands there as the last one begun, it notes the
//! step's number in a word of its own (the *witness*). So the last change of a dead participant
//! happened if its mark stands in the cell, or if somebody witnessed it. This is the recoverable
//! compare-and-swap of Attiya, Ben-Baruch and Hendler ("Nesting-Safe Recoverable Linearizability",
//! PODC 2018), in 64 bits, with one witness word per pair for all cells. One word is enough because
//! only the last step of an actor is ever asked for, and a note of it is followed by none about
//! older ones: their numbers are no longer in the journal.
//!
//! A look into a journal costs its owner a cache line, so it is left out where nothing can be
//! learned. A mark that a lease replaces brought the count to zero: the new generation says for
//! ever that it happened. A lease whose mark anything else replaces is over: there is no other
//! reference to a slot before its lessee has gone on to the next step.
//!
//! Nineteen bits come round. A step therefore never takes a number whose mark stands in its cell
//! already, and a witness looks at the cell once more behind the journal. What is left: a swap that
//! sleeps through exactly a multiple of 2^19 steps of one actor, and finds count, generation and
//! mark as they were.

use hythe_abi::pool::ControlLayout;
use hythe_memory::{Memory, Ordering};

use crate::counted::{Counted, LEASE, Mark};
use crate::journal;

/// Tries of one change before the cell counts as damaged: somebody keeps changing it without
/// reason.
pub(crate) const ATTEMPTS: usize = 1 << 16;

/// Why a change did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// `change` declined what it saw.
    Declined,
    /// The cell never stood still.
    Contended,
}

/// Changes a cell to what `change` makes of count and upper bits; `None` declines. Returns what
/// stood there before.
#[inline(always)]
pub(crate) fn change<M: Memory>(
    memory: &M,
    layout: &ControlLayout,
    at: usize,
    mark: Mark,
    change: impl Fn(Counted) -> Option<(u32, u32)>,
) -> Result<Counted, Unchanged> {
    let mut bits = memory.load_cell(at, Ordering::Acquire);
    for _ in 0..ATTEMPTS {
        let before = Counted::from_bits(bits);
        let (count, upper) = change(before).ok_or(Unchanged::Declined)?;
        let after = Counted {
            count,
            by: mark.by,
            sequence: mark.sequence(),
            upper,
        };
        if let Some(seen) = unfinished(memory, layout, at, mark, before) {
            let again = memory.load_cell(at, Ordering::Acquire);
            if again != bits {
                bits = again;
                continue;
            }
            bear_witness(memory, layout, mark.by, seen);
        }
        match memory.replace_cell(at, bits, after.to_bits()) {
            Ok(()) => return Ok(before),
            Err(found) => bits = found,
        }
    }
    Err(Unchanged::Contended)
}

/// The mark that stands in `seen`, if it is another's and its journal still shows that step.
#[inline(always)]
fn unfinished<M: Memory>(
    memory: &M,
    layout: &ControlLayout,
    at: usize,
    mark: Mark,
    seen: Counted,
) -> Option<Mark> {
    if seen.sequence == 0 || seen.by == mark.by || mark.lease || seen.sequence & LEASE != 0 {
        return None;
    }
    if u32::from(seen.by) >= layout.limits().participants {
        return None;
    }
    journal::begun_on(memory, layout, seen.by, at).filter(|begun| begun.stands_in(seen))
}

fn bear_witness<M: Memory>(memory: &M, layout: &ControlLayout, witness: u8, seen: Mark) {
    // Made visible by the release half of the swap that follows; `happened` reads the cell first,
    // with acquire.
    let note = layout.witness(witness.into(), seen.by.into());
    memory.store(note, seen.number, Ordering::Relaxed);
}

/// Did the change with this mark happen to the cell? Only asked for the last change its maker
/// began.
pub(crate) fn happened<M: Memory>(
    memory: &M,
    layout: &ControlLayout,
    at: usize,
    mark: Mark,
) -> bool {
    let now = Counted::from_bits(memory.load_cell(at, Ordering::Acquire));
    if mark.stands_in(now) {
        return true;
    }
    let participants = layout.limits().participants as usize;
    (0..participants).any(|witness| {
        let note = layout.witness(witness, mark.by.into());
        memory.load(note, Ordering::Relaxed) == mark.number
    })
}
