//! Queues that drop the oldest: either end may take from them, so their head is a counted cell and not a word of the consumer.
//!
//! Taking is one step for both sides: read head and descriptor, note both, swap the head from that place to the next, count
//! the hold. If the swap fails, another was faster, and what was read may be torn: it counts for nothing. If it succeeds, the
//! producer had not moved past this place, so the descriptor was whole. The cell carries the marks of `cell`: recovery can
//! tell whether the last swap of a dead one happened. Called by [`Member::send`] and [`Member::take`] on such queues, and by
//! publishers that find one full. Queues with any other policy never come here.

use hythe_abi::Descriptor;
use hythe_memory::{Memory, Ordering};
use hythe_queue::{Consumer, Producer, QueueError};

use crate::cell::{self, Counted, Unchanged};
use crate::connections::{ConnectionEnd, ConnectionIndex, ConnectionInfo};
use crate::control::Control;
use crate::holds::{hold, set_hold};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::regions::Regions;
use crate::transfer::{SendError, Taken, check_current, violated};
use crate::{Member, PoolError};

/// Tries of one take. Each that fails met a message that the other side took: the caller looks again when it is rung.
const ATTEMPTS: usize = 64;
/// Bits of the head in the upper part of its cell; the others are in the count.
const UPPER_BITS: u32 = 24;

fn cell_of<M: Memory>(control: &Control<M>, index: ConnectionIndex) -> Counted {
    let at = control.layout().oldest(index.0 as usize);
    // Pairs with the swap of whoever moved the head: what that one read there, it has finished reading.
    Counted::from_bits(control.memory().load_cell(at, Ordering::Acquire))
}

const fn head_in(cell: Counted) -> u32 {
    cell.upper | cell.count << UPPER_BITS
}

/// Count and upper bits of a cell for this head.
const fn parts(head: u32) -> (u32, u32) {
    (head >> UPPER_BITS, head & ((1 << UPPER_BITS) - 1))
}

/// Where the head stands.
pub(crate) fn head<M: Memory>(control: &Control<M>, index: ConnectionIndex) -> u32 {
    head_in(cell_of(control, index))
}

/// Lets the producer's end know of room, so that its push looks at no word of the consumer's.
#[cold]
pub(crate) fn look_for_room<M: Memory>(
    control: &Control<M>,
    end: &mut ConnectionEnd<Producer>,
) -> Result<(), SendError> {
    if end.queue.knows_of_room() {
        return Ok(());
    }
    match end.queue.see_head(head(control, end.info.index)) {
        Ok(0) | Err(QueueError::Full) => Err(SendError::Full),
        Ok(_) => Ok(()),
        Err(QueueError::Violated { own, claimed }) => Err(violated(own, claimed).into()),
    }
}

impl ConnectionEnd<Consumer> {
    /// How many descriptors wait, whatever the policy of the queue.
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the other side's counter is impossible.
    #[inline(always)]
    pub fn waiting<M: Memory>(&mut self, control: &Control<M>) -> Result<u32, QueueError> {
        if self.info.drops_oldest {
            self.waiting_behind_cell(control)
        } else {
            self.queue.waiting(control.memory())
        }
    }

    /// Does something wait? Cheaper than [`waiting`](Self::waiting).
    ///
    /// # Errors
    /// As [`waiting`](Self::waiting).
    #[inline(always)]
    pub fn is_something_waiting<M: Memory>(
        &mut self,
        control: &Control<M>,
    ) -> Result<bool, QueueError> {
        if self.info.drops_oldest {
            Ok(self.waiting_behind_cell(control)? > 0)
        } else {
            self.queue.is_something_waiting(control.memory())
        }
    }

    #[cold]
    fn waiting_behind_cell<M: Memory>(&mut self, control: &Control<M>) -> Result<u32, QueueError> {
        let memory = control.memory();
        let mut head = head(control, self.info.index);
        for _ in 0..ATTEMPTS {
            let waiting = self.queue.waiting_from(memory, head);
            let now = self::head(control, self.info.index);
            if waiting.is_ok() || now == head {
                return waiting;
            }
            head = now;
        }
        // It moves faster than we look, so something waits.
        Ok(1)
    }
}

impl<M: Memory> Control<M> {
    /// Is there room in the queue for one more, as its producer sees it?
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the consumer's counter is impossible.
    #[inline]
    pub fn room(&self, end: &mut ConnectionEnd<Producer>) -> Result<u32, QueueError> {
        if end.info.drops_oldest {
            end.queue.see_head(head(self, end.info.index))
        } else {
            end.queue.room(self.memory())
        }
    }
}

impl Member {
    /// The consumer's take.
    #[cold]
    pub(crate) fn take_oldest<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
    ) -> Result<Option<Taken>, PoolError> {
        for _ in 0..ATTEMPTS {
            let seen = cell_of(control, end.info.index);
            match end.queue.peek_from(control.memory(), head_in(seen)) {
                Ok(None) => return Ok(None),
                Ok(Some(descriptor)) => {
                    let tried = self.take_if_still(control, regions, &end.info, seen, descriptor);
                    if let Some(taken) = tried? {
                        return Ok(Some(taken));
                    }
                }
                // The tail was read behind the head: the two fit unless the producer has moved the head meanwhile.
                Err(QueueError::Violated { own, claimed })
                    if cell_of(control, end.info.index) == seen =>
                {
                    return Err(violated(own, claimed));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The producer's: takes the oldest of a full queue back, to make room. `None`: the consumer was faster, there is room.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`]: nonsense stood there, and was removed; [`PoolError::Damaged`] if the consumer's counter
    /// is impossible.
    ///
    /// # Panics
    /// If the queue has another policy.
    pub fn drop_oldest<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Producer>,
    ) -> Result<Option<Taken>, PoolError> {
        assert!(end.info.drops_oldest, "the head is the consumer's alone");
        let seen = cell_of(control, end.info.index);
        if let Err(QueueError::Violated { own, claimed }) = end.queue.see_head(head_in(seen)) {
            return Err(violated(own, claimed));
        }
        match end.queue.oldest(control.memory()) {
            Some(descriptor) => self.take_if_still(control, regions, &end.info, seen, descriptor),
            None => Ok(None),
        }
    }

    /// Moves the head on from `seen`, and with it the reference that `descriptor` names to this participant. `None`: it is
    /// not there any more, and `descriptor` says nothing.
    fn take_if_still<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        info: &ConnectionInfo,
        seen: Counted,
        descriptor: Descriptor,
    ) -> Result<Option<Taken>, PoolError> {
        let checked = check_current(control, regions, descriptor).and_then(|found| {
            let before = hold(control, self.index().0, found.slot);
            let after = before.gained(1, self.now());
            let too_many = PoolError::BadDescriptor {
                reason: "more references than a slot can have",
                descriptor,
            };
            Ok((found, after.ok_or(too_many)?))
        });
        // Nonsense is taken out as well, by a step that gains nothing.
        let slot = checked
            .as_ref()
            .map_or(LedgerSlot(0), |(found, _)| found.slot);
        let step = Step {
            slot: slot.0,
            count: checked.is_ok().into(),
            before: hold(control, self.index().0, slot).to_bits(),
            row: info.index.0,
            ..Step::default()
        };
        let mark = journal::begin(control, self, Operation::TakeOldest, step);
        let at = control.layout().oldest(info.index.0 as usize);
        let next = parts(head_in(seen).wrapping_add(1));
        let on = |found: Counted| (found == seen).then_some(next);
        let moved = cell::change(control.memory(), control.layout(), at, mark, on);
        if let (Ok(_), Ok((_, after))) = (moved, &checked) {
            set_hold(control, self.index().0, slot, *after);
        }
        journal::end(control, self);
        match moved {
            Ok(_) => checked.map(|(found, _)| Some(found.taken(descriptor))),
            Err(Unchanged::Declined | Unchanged::Contended) => Ok(None),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn heads_are_those_of_the_golden_vectors() {
        let text = include_str!("../../../spec/vectors/pool.txt");
        let groups: Vec<&str> = text.split("[head.").skip(1).collect();
        assert_eq!(groups.len(), 3);
        for group in groups {
            let value = |key: &str| {
                let line = group
                    .lines()
                    .find_map(|line| line.strip_prefix(&format!("{key} = ")));
                line.expect("the key")
            };
            let number = |key: &str| value(key).parse::<u32>().expect("a number");
            let (count, upper) = parts(number("head"));
            let cell = Counted {
                count,
                by: number("by") as u8,
                sequence: number("number"),
                upper,
            };
            assert_eq!(head_in(cell), number("head"));
            let hex: String = cell
                .to_bits()
                .to_le_bytes()
                .map(|byte| format!("{byte:02x}"))
                .concat();
            assert_eq!(hex, value("hex"), "{group}");
        }
    }
}
