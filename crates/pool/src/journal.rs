//! The journal: one step that a participant has begun, so that its recoverer can finish or undo it.
//!
//! A step is: [`begin`], one visible change in a cell or queue word, the own hold record, [`end`].
//! The own stores need only stay in program order: a killed thread stops between two instructions,
//! what it stored before becomes visible to all, what came after never happened. Release stores and
//! one compiler fence keep the compiler to that order.

use core::sync::atomic::compiler_fence;

use hythe_abi::pool::{ControlLayout, intent, participant};
use hythe_memory::{Memory, Ordering};

use crate::control::Control;
use crate::counted::{Counted, Mark};
use crate::tables::members::MemberIndex;

/// What a step does. The numbers are part of the layout (`spec/pool.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Lease = 1,
    Duplicate = 2,
    Release = 3,
    Send = 4,
    Take = 5,
    Give = 6,
    Reclaim = 7,
    TakeOldest = 8,
}

impl Operation {
    pub(crate) const fn from_word(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::Lease),
            2 => Some(Self::Duplicate),
            3 => Some(Self::Release),
            4 => Some(Self::Send),
            5 => Some(Self::Take),
            6 => Some(Self::Give),
            7 => Some(Self::Reclaim),
            8 => Some(Self::TakeOldest),
            _ => None,
        }
    }
}

/// Everything the recoverer needs. `before` is the own hold record as it was, `position` that in
/// the queue, or for a release the generation of the slot; `row` is a participant's, or the
/// connection of a take of the oldest; fields that a step does not use are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) slot: u32,
    pub(crate) count: u32,
    pub(crate) before: u64,
    pub(crate) connection: u32,
    pub(crate) position: u32,
    pub(crate) row: u32,
}

#[inline]
pub(crate) fn at<M: Memory>(control: &Control<M>, index: u8) -> usize {
    intent_of(control.layout(), index)
}

#[inline]
const fn intent_of(layout: &ControlLayout, index: u8) -> usize {
    layout.participant(index as usize) + participant::INTENT
}

/// The cell that a step changes, if it changes one and its numbers are inside the tables.
#[inline(always)]
pub(crate) const fn target(
    layout: &ControlLayout,
    operation: Operation,
    slot: u32,
    row: u32,
) -> Option<usize> {
    let limits = layout.limits();
    let rows = match operation {
        Operation::TakeOldest => limits.connections,
        _ => limits.participants,
    };
    if slot >= limits.slots || row >= rows {
        return None;
    }
    match operation {
        Operation::TakeOldest => Some(layout.oldest(row as usize)),
        Operation::Lease | Operation::Duplicate | Operation::Release => {
            Some(layout.slot_cell(slot as usize))
        }
        Operation::Give | Operation::Reclaim => Some(layout.hold(row as usize, slot as usize)),
        Operation::Send | Operation::Take => None,
    }
}

/// Notes a step, and returns the mark that its change carries.
#[inline(always)]
pub(crate) fn begin<M: Memory>(
    control: &Control<M>,
    member: MemberIndex,
    operation: Operation,
    step: Step,
) -> Mark {
    // The release store below does not hold later stores back. Between a thread and its own end
    // that is the compiler's doing.
    compiler_fence(Ordering::SeqCst);
    let (memory, at) = (control.memory(), at(control, member.0));
    let last = memory.load(at + intent::SEQUENCE, Ordering::Relaxed);
    let lease = operation == Operation::Lease;
    let mut mark = Mark {
        by: member.0,
        number: last,
        lease,
    }
    .next();
    let target = target(control.layout(), operation, step.slot, step.row);
    // Relaxed: only this participant puts its own marks, and it sees those that it has put.
    let stands = |cell| Counted::from_bits(memory.load_cell(cell, Ordering::Relaxed));
    if target.is_some_and(|cell| mark.stands_in(stands(cell))) {
        mark = mark.next();
    }
    // The end of the step before comes first. Pairs with the acquire load in `begun_on`.
    memory.store(at + intent::SEQUENCE, mark.number, Ordering::Release);
    memory.store(at + intent::SLOT, step.slot, Ordering::Relaxed);
    memory.store(at + intent::COUNT, step.count, Ordering::Relaxed);
    memory.store_cell(at + intent::BEFORE, step.before, Ordering::Relaxed);
    memory.store(at + intent::CONNECTION, step.connection, Ordering::Relaxed);
    memory.store(at + intent::POSITION, step.position, Ordering::Relaxed);
    memory.store(at + intent::ROW, step.row, Ordering::Relaxed);
    memory.store(at + intent::OPERATION, operation as u32, Ordering::Release);
    mark
}

/// Notes a step whose visible change is a queue's counter: it puts no mark into a cell, so it takes
/// no number, and stores no field that only other steps use. Whoever looks for the maker of a mark
/// meanwhile finds no step on a cell here.
#[inline(always)]
pub(crate) fn begin_move<M: Memory>(
    control: &Control<M>,
    member: MemberIndex,
    operation: Operation,
    step: Step,
) {
    compiler_fence(Ordering::SeqCst);
    let (memory, at) = (control.memory(), at(control, member.0));
    memory.store(at + intent::SLOT, step.slot, Ordering::Relaxed);
    memory.store_cell(at + intent::BEFORE, step.before, Ordering::Relaxed);
    memory.store(at + intent::CONNECTION, step.connection, Ordering::Relaxed);
    memory.store(at + intent::POSITION, step.position, Ordering::Relaxed);
    memory.store(at + intent::OPERATION, operation as u32, Ordering::Release);
}

/// The step is finished, or undone.
#[inline(always)]
pub(crate) fn end<M: Memory>(control: &Control<M>, member: MemberIndex) {
    let at = at(control, member.0);
    control
        .memory()
        .store(at + intent::OPERATION, 0, Ordering::Release);
}

/// The mark of the step that a participant, dead or alive, has begun on this cell and not ended.
#[inline(always)]
pub(crate) fn begun_on<M: Memory>(
    memory: &M,
    layout: &ControlLayout,
    index: u8,
    cell: usize,
) -> Option<Mark> {
    let at = intent_of(layout, index);
    // In this order: an operation read behind the number is that of the step, or of a later one, or
    // none; never of an earlier one. If the journal went on to a later step meanwhile, nobody will
    // ask for this one.
    let number = memory.load(at + intent::SEQUENCE, Ordering::Acquire);
    let operation = Operation::from_word(memory.load(at + intent::OPERATION, Ordering::Acquire))?;
    let slot = memory.load(at + intent::SLOT, Ordering::Relaxed);
    let row = memory.load(at + intent::ROW, Ordering::Relaxed);
    let begun = target(layout, operation, slot, row) == Some(cell);
    begun.then_some(mark_of(index, number, operation))
}

/// The step that a participant has begun, with the mark of its change.
pub(crate) fn pending<M: Memory>(
    control: &Control<M>,
    member: MemberIndex,
) -> Option<(Operation, Step, Mark)> {
    let (memory, at) = (control.memory(), at(control, member.0));
    let operation = Operation::from_word(memory.load(at + intent::OPERATION, Ordering::Acquire))?;
    let word = |offset| memory.load(at + offset, Ordering::Relaxed);
    let step = Step {
        slot: word(intent::SLOT),
        count: word(intent::COUNT),
        before: memory.load_cell(at + intent::BEFORE, Ordering::Relaxed),
        connection: word(intent::CONNECTION),
        position: word(intent::POSITION),
        row: word(intent::ROW),
    };
    Some((
        operation,
        step,
        mark_of(member.0, word(intent::SEQUENCE), operation),
    ))
}

fn mark_of(by: u8, number: u32, operation: Operation) -> Mark {
    Mark {
        by,
        number,
        lease: operation == Operation::Lease,
    }
}
