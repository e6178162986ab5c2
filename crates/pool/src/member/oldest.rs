//! Queues that evict the oldest: either end may take from them, so their head is a counted cell and
//! not a word of the consumer.
//!
//! Taking is one step for both sides: read head and descriptor, note both, swap the head from that
//! place to the next, count the hold. If the swap fails, another was faster, and what was read may
//! be torn: it counts for nothing. If it succeeds, the producer had not moved past this place, so
//! the descriptor was whole. The cell carries the marks of `cell`: recovery can tell whether the
//! last swap of a dead one happened. Called by [`Member::send`] and [`Member::take`] on such
//! queues, and by publishers that find one full. Queues with any other policy never come here.

use hythe_abi::Descriptor;
use hythe_memory::Memory;
use hythe_queue::{Consumer, Producer, QueueError};

use super::Member;
use crate::PoolError;
use crate::cell::{self, Unchanged};
use crate::control::Control;
use crate::counted::{Counted, parts_of_head};
use crate::error::{SendError, violated};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::regions::{Regions, Taken};
use crate::tables::connections::ConnectionInfo;
use crate::tables::ends::ConnectionEnd;

/// Tries of one take. Each that fails met a message that the other side took: the caller looks
/// again when it is rung.
const ATTEMPTS: usize = 64;

/// Tells the producer's end that an entry is free, so that its push reads no word of the
/// consumer's.
#[cold]
pub(super) fn look_for_room<M: Memory>(
    control: &Control<M>,
    end: &mut ConnectionEnd<Producer>,
) -> Result<(), SendError> {
    if end.queue.has_known_capacity() {
        return Ok(());
    }
    match end
        .queue
        .see_head(control.tables().oldest_head(end.info.index))
    {
        Ok(0) | Err(QueueError::Full) => Err(SendError::Full),
        Ok(_) => Ok(()),
        Err(QueueError::Violated { own, claimed }) => Err(violated(own, claimed).into()),
    }
}

impl Member {
    /// The consumer's take.
    #[cold]
    pub(super) fn take_oldest<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
    ) -> Result<Option<Taken>, PoolError> {
        for _ in 0..ATTEMPTS {
            let seen = control.tables().oldest_cell(end.info.index);
            match end.queue.peek_from(control.memory(), seen.head()) {
                Ok(None) => return Ok(None),
                Ok(Some(descriptor)) => {
                    end.gap = control.tables().gap(&end.info, seen.head());
                    let tried = self.take_if_still(control, regions, &end.info, seen, descriptor);
                    if let Some(taken) = tried? {
                        return Ok(Some(taken));
                    }
                }
                // The tail was read behind the head: the two fit unless the producer has moved the
                // head meanwhile.
                Err(QueueError::Violated { own, claimed })
                    if control.tables().oldest_cell(end.info.index) == seen =>
                {
                    return Err(violated(own, claimed));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// For the producer: evicts the oldest descriptor of a full queue. `None`: the consumer took
    /// one meanwhile, and the queue is no longer full.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`]: nonsense stood there, and was removed; [`PoolError::Damaged`]
    /// if the consumer's counter is impossible.
    ///
    /// # Panics
    /// If the queue has another policy.
    pub fn evict_oldest<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Producer>,
    ) -> Result<Option<Taken>, PoolError> {
        assert!(end.info.evicts_oldest, "the head is the consumer's alone");
        let seen = control.tables().oldest_cell(end.info.index);
        if let Err(QueueError::Violated { own, claimed }) = end.queue.see_head(seen.head()) {
            return Err(violated(own, claimed));
        }
        match end.queue.oldest(control.memory()) {
            Some(descriptor) => self.take_if_still(control, regions, &end.info, seen, descriptor),
            None => Ok(None),
        }
    }

    /// Moves the head on from `seen`, and with it the reference that `descriptor` names to this
    /// participant. `None`: it is not there any more, and `descriptor` says nothing.
    fn take_if_still<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        info: &ConnectionInfo,
        seen: Counted,
        descriptor: Descriptor,
    ) -> Result<Option<Taken>, PoolError> {
        let checked = regions
            .check_current(control, descriptor)
            .and_then(|found| {
                let before = control.ledger().hold(self.index(), found.slot);
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
            before: control.ledger().hold(self.index(), slot).to_bits(),
            row: info.index.0,
            ..Step::default()
        };
        let mark = journal::begin(control, self.index(), Operation::TakeOldest, step);
        let at = control.layout().oldest(info.index.0 as usize);
        let next = parts_of_head(seen.head().wrapping_add(1));
        let on = |found: Counted| (found == seen).then_some(next);
        let moved = cell::change(control.memory(), control.layout(), at, mark, on);
        if let (Ok(_), Ok((_, after))) = (moved, &checked) {
            control.ledger().set_hold(self.index(), slot, *after);
        }
        journal::end(control, self.index());
        match moved {
            Ok(_) => checked.map(|(found, _)| Some(found.taken(descriptor))),
            Err(Unchanged::Declined | Unchanged::Contended) => Ok(None),
        }
    }
}
