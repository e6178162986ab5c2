//! Moving a reference through a queue. The count in the slot's cell does not change: only who
//! answers for it.

use hythe_abi::{Descriptor, RegionIndex};
use hythe_memory::Memory;
use hythe_queue::{Consumer, Producer, QueueError};

use super::{Member, oldest};
use crate::PoolError;
use crate::control::Control;
use crate::error::{SendError, violated};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::regions::{Regions, Taken, check_generation};
use crate::tables::ends::ConnectionEnd;

impl Member {
    /// Moves one own reference into a queue.
    ///
    /// # Errors
    /// [`SendError::Full`]; [`PoolError::Damaged`] if the consumer's counter is impossible or this
    /// participant holds nothing.
    #[inline(always)]
    pub fn send<M: Memory>(
        &mut self,
        control: &Control<M>,
        end: &mut ConnectionEnd<Producer>,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), SendError> {
        end.queue.expect_push(control.memory());
        let before = self.held(control, slot, 1)?;
        if end.info.evicts_oldest {
            oldest::look_for_room(control, end)?;
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

    /// Says in a queue that so many messages are missing at this place. Moves no reference, so
    /// there is nothing to be noted or recovered.
    ///
    /// # Errors
    /// As [`Member::send`].
    #[cold]
    pub fn send_missed<M: Memory>(
        &mut self,
        control: &Control<M>,
        end: &mut ConnectionEnd<Producer>,
        messages: u32,
    ) -> Result<(), SendError> {
        if end.info.evicts_oldest {
            oldest::look_for_room(control, end)?;
        }
        let pushed = end
            .queue
            .push(control.memory(), Descriptor::missed(messages));
        pushed.map_err(|error| match error {
            QueueError::Full => SendError::Full,
            QueueError::Violated { own, claimed } => violated(own, claimed).into(),
        })
    }

    /// Takes the next reference out of a queue.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`]: the queue held nonsense, a stale descriptor, or the number of
    /// messages that are missing here ([`hythe_abi::DescriptorMark::Missed`]), which was removed;
    /// [`PoolError::Damaged`] if the producer's counter is impossible.
    #[inline(always)]
    pub fn take<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
    ) -> Result<Option<Taken>, PoolError> {
        self.take_announced(control, regions, end, |_, _| {})
    }

    /// As [`take`](Self::take); says early where the payload begins, so that its first line comes
    /// while the ledger is asked.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    #[inline(always)]
    pub fn take_announced<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
        expect_payload: impl FnOnce(RegionIndex, usize),
    ) -> Result<Option<Taken>, PoolError> {
        if end.info.evicts_oldest {
            return self.take_oldest(control, regions, end);
        }
        let peeked = end.queue.peek(control.memory());
        let descriptor = match peeked {
            Ok(Some(descriptor)) => descriptor,
            Ok(None) => return Ok(None),
            Err(QueueError::Violated { own, claimed }) => return Err(violated(own, claimed)),
            Err(QueueError::Full) => return Ok(None),
        };
        let found = regions.check_place(control, descriptor).and_then(|found| {
            let payload = found.slot_offset + descriptor.offset as usize;
            expect_payload(descriptor.place.region, payload);
            check_generation(control, found, descriptor)
        });
        let found = match found {
            Ok(found) => found,
            Err(refused) => {
                end.queue.advance(control.memory());
                return Err(refused);
            }
        };
        let before = control.ledger().hold(self.index(), found.slot);
        let Some(after) = before.gained(1, self.now()) else {
            end.queue.advance(control.memory());
            return Err(PoolError::BadDescriptor {
                reason: "more references than a slot can have",
                descriptor,
            });
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
        Ok(Some(found.taken(descriptor)))
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
