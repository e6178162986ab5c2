//! Moving a reference through a queue. The count in the slot's cell does not change: only who
//! answers for it.

use hythe_abi::{Descriptor, RegionIndex};
use hythe_memory::Memory;
use hythe_queue::{Consumer, Producer, QueueError};

use super::leasing::not_held;
use super::{Member, oldest};
use crate::PoolError;
use crate::control::Control;
use crate::counted::Counted;
use crate::error::{SendError, violated};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::regions::{ClaimedSlot, Regions, STALE, Taken, is_current};
use crate::tables::ends::ConnectionEnd;

impl Member {
    /// Moves one own reference into a queue.
    ///
    /// # Errors
    /// [`SendError::Full`]; [`PoolError::Damaged`] if the consumer's counter is impossible or this
    /// participant holds nothing.
    pub fn send<M: Memory>(
        &mut self,
        control: &Control<M>,
        end: &mut ConnectionEnd<Producer>,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), SendError> {
        if end.info.evicts_oldest {
            oldest::look_for_room(control, end)?;
        }
        self.send_seen(control, end, slot, descriptor)
    }

    /// As [`send`](Self::send), into a queue that does not evict the oldest, or of which the head
    /// was just looked at.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline(always)]
    pub fn send_seen<M: Memory>(
        &mut self,
        control: &Control<M>,
        end: &mut ConnectionEnd<Producer>,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), SendError> {
        end.queue.expect_push(control.memory());
        let before = control.ledger().hold(self.index(), slot);
        if before.count == 0 {
            return Err(not_held(self.index(), before.count, slot, 1).into());
        }
        let step = Step {
            slot: slot.0,
            before: before.to_bits(),
            connection: end.info.index.0,
            position: end.queue.tail(),
            ..Step::default()
        };
        journal::begin_move(control, self.index(), Operation::Send, step);
        let pushed = end.queue.push(control.memory(), descriptor);
        if let (Ok(()), Some(after)) = (pushed, before.lost(1)) {
            control.ledger().set_hold(self.index(), slot, after);
        }
        journal::end(control, self.index());
        match pushed {
            Ok(()) => Ok(()),
            Err(QueueError::Full) => Err(SendError::Full),
            Err(QueueError::Violated { own, claimed }) => Err(violated(own, claimed).into()),
        }
    }

    /// Takes the next reference out of a queue.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`]: the queue held nonsense, or a stale descriptor, which was
    /// removed; [`PoolError::Damaged`] if the producer's counter is impossible.
    pub fn take<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
    ) -> Result<Option<Taken>, PoolError> {
        if end.info.evicts_oldest {
            return self.take_oldest(control, regions, end);
        }
        let descriptor = match end.queue.peek(control.memory()) {
            Ok(Some(descriptor)) => descriptor,
            Ok(None) | Err(QueueError::Full) => return Ok(None),
            Err(QueueError::Violated { own, claimed }) => return Err(violated(own, claimed)),
        };
        regions.seek(control, descriptor.place.region);
        self.take_peeked(control, regions, end, descriptor, |_, _| {})
            .map(Some)
            .map_err(|reason| PoolError::BadDescriptor { reason, descriptor })
    }

    /// Takes the reference that was [peeked](Consumer::peek) in a queue that does not evict the
    /// oldest, from a region that was [sought](Regions::seek). Says early where the payload begins,
    /// so that its first line comes while the ledger is asked.
    ///
    /// # Errors
    /// The reason of a [`PoolError::BadDescriptor`], as for [`take`](Self::take): it was removed.
    #[inline(always)]
    pub fn take_peeked<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
        descriptor: Descriptor,
        expect_payload: impl FnOnce(RegionIndex, usize),
    ) -> Result<Taken, &'static str> {
        let claimed = self.claim(control, regions, descriptor, expect_payload);
        let (found, before, after) = match claimed {
            Ok(claimed) => claimed,
            Err(refused) => {
                end.queue.advance(control.memory());
                return Err(refused);
            }
        };
        let step = Step {
            slot: found.slot.0,
            before: before.to_bits(),
            connection: end.info.index.0,
            position: end.queue.head(),
            ..Step::default()
        };
        journal::begin_move(control, self.index(), Operation::Take, step);
        control.ledger().set_hold(self.index(), found.slot, after);
        end.queue.advance(control.memory());
        journal::end(control, self.index());
        Ok(found.taken(descriptor))
    }

    /// The slot that a descriptor names, and the own hold on it, before and behind a take.
    #[inline(always)]
    fn claim<M: Memory>(
        &self,
        control: &Control<M>,
        regions: &Regions,
        descriptor: Descriptor,
        expect_payload: impl FnOnce(RegionIndex, usize),
    ) -> Result<(ClaimedSlot, Counted, Counted), &'static str> {
        let found = regions.find(descriptor)?;
        let payload = found.slot_offset + descriptor.offset as usize;
        expect_payload(descriptor.place.region, payload);
        if !is_current(control, found, descriptor) {
            return Err(STALE);
        }
        let before = control.ledger().hold(self.index(), found.slot);
        match before.gained(1, self.now()) {
            Some(after) => Ok((found, before, after)),
            None => Err("more references than a slot can have"),
        }
    }
}

/// Has the lines come that the take and the release of a message will need which waits `ahead` of
/// the next one, if it was seen waiting: its cell was last changed by whoever leased the slot. Says
/// where its payload begins. Takes nothing and believes nothing.
#[inline(always)]
pub fn expect_take<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    end: &ConnectionEnd<Consumer>,
    ahead: u32,
) -> Option<(RegionIndex, usize)> {
    if end.info.evicts_oldest {
        // Where its head stands, only a take finds out.
        return None;
    }
    let descriptor = end.queue.peek_seen(control.memory(), ahead)?;
    let found = regions.check(descriptor).ok()?;
    control
        .memory()
        .expect_store(control.ledger().slot_at(found.slot));
    let payload = found.slot_offset + descriptor.offset as usize;
    Some((descriptor.place.region, payload))
}
