//! Moving a reference through a queue. The count in the slot's cell does not change: only who answers for it.

use hythe_abi::Descriptor;
use hythe_memory::Memory;
use hythe_queue::{Consumer, Producer, QueueError};

use crate::connections::ConnectionEnd;
use crate::control::Control;
use crate::holds::{hold, set_hold};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::oldest;
use crate::regions::{ClaimedSlot, Regions};
use crate::{Member, PoolError};

/// A reference taken out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The payload.
    pub descriptor: Descriptor,
    /// Its slot.
    pub slot: LedgerSlot,
    /// From the region's first byte to the slot's.
    pub slot_offset: usize,
}

/// Why a reference was not sent. It is still the sender's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue is full.
    #[error("the receiver's queue is full")]
    Full,
    /// The pool refused. Boxed: what is rare must not make every answer large.
    #[error(transparent)]
    Pool(Box<PoolError>),
}

impl From<PoolError> for SendError {
    #[cold]
    fn from(error: PoolError) -> Self {
        Self::Pool(Box::new(error))
    }
}

impl ClaimedSlot {
    /// The reference that a descriptor brought, once it is in an own row.
    #[must_use]
    #[inline]
    pub const fn taken(self, descriptor: Descriptor) -> Taken {
        Taken {
            descriptor,
            slot: self.slot,
            slot_offset: self.slot_offset,
        }
    }
}

impl Member {
    /// Moves one own reference into a queue.
    ///
    /// # Errors
    /// [`SendError::Full`]; [`PoolError::Damaged`] if the consumer's counter is impossible or this participant holds nothing.
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
        if end.info.drops_oldest {
            oldest::look_for_room(control, end)?;
        }
        let step = Step {
            slot: slot.0,
            before: before.to_bits(),
            connection: end.info.index.0,
            position: end.queue.tail(),
            ..Step::default()
        };
        journal::begin_move(control, self, Operation::Send, step);
        let pushed = end.queue.push(control.memory(), descriptor);
        if let (Ok(()), Some(after)) = (pushed, before.lost(1)) {
            set_hold(control, self.index().0, slot, after);
        }
        journal::end(control, self);
        match pushed {
            Ok(()) => Ok(()),
            Err(QueueError::Full) => Err(SendError::Full),
            Err(QueueError::Violated { own, claimed }) => Err(violated(own, claimed).into()),
        }
    }

    /// Takes the next reference out of a queue.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`]: the queue held nonsense or a stale descriptor, which was removed;
    /// [`PoolError::Damaged`] if the producer's counter is impossible.
    #[inline(always)]
    pub fn take<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
    ) -> Result<Option<Taken>, PoolError> {
        if end.info.drops_oldest {
            return self.take_oldest(control, regions, end);
        }
        let peeked = end.queue.peek(control.memory());
        let descriptor = match peeked {
            Ok(Some(descriptor)) => descriptor,
            Ok(None) => return Ok(None),
            Err(QueueError::Violated { own, claimed }) => return Err(violated(own, claimed)),
            Err(QueueError::Full) => return Ok(None),
        };
        let found = match check_current(control, regions, descriptor) {
            Ok(found) => found,
            Err(refused) => {
                end.queue.advance(control.memory());
                return Err(refused);
            }
        };
        let before = hold(control, self.index().0, found.slot);
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
        journal::begin_move(control, self, Operation::Take, step);
        set_hold(control, self.index().0, found.slot, after);
        end.queue.advance(control.memory());
        journal::end(control, self);
        Ok(Some(found.taken(descriptor)))
    }
}

/// Has the ledger's lines of what waits in a queue come, the first `at_most`: each was last changed by whoever leased the slot,
/// and is to be changed by its release. Takes nothing and believes nothing.
#[inline]
pub fn expect_takes<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    end: &ConnectionEnd<Consumer>,
    at_most: u32,
) {
    if end.info.drops_oldest {
        // Where its head stands, only a take finds out.
        return;
    }
    for ahead in 0..at_most {
        let Some(descriptor) = end.queue.peek_seen(control.memory(), ahead) else {
            return;
        };
        if let Some(slot) = regions.ledger_slot(descriptor.place) {
            control.memory().expect_store(control.slot_at(slot));
        }
    }
}

/// Checks a claimed descriptor against geometry and ledger.
#[inline(always)]
pub(crate) fn check_current<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    descriptor: Descriptor,
) -> Result<ClaimedSlot, PoolError> {
    if regions.region(descriptor.place.region).is_none() {
        // It may have been added since we last looked. If it makes no sense, it is not there for us.
        let _ = regions.refresh(control);
    }
    let found = regions.check(descriptor)?;
    let (references, generation) = control.slot(found.slot);
    if references == 0 || generation != descriptor.generation {
        return Err(PoolError::BadDescriptor {
            reason: "stale generation",
            descriptor,
        });
    }
    Ok(found)
}

#[cold]
pub(crate) fn violated(own: u32, claimed: u32) -> PoolError {
    PoolError::Damaged(format!(
        "a queue's other side claims counter {claimed}, impossible beside {own}"
    ))
}

impl<M: Memory> Control<M> {
    /// Checks a descriptor from a core's link against geometry and ledger.
    ///
    /// # Errors
    /// [`PoolError::BadDescriptor`] naming what does not fit.
    pub fn check_descriptor(
        &self,
        regions: &Regions,
        descriptor: Descriptor,
    ) -> Result<ClaimedSlot, PoolError> {
        check_current(self, regions, descriptor)
    }
}
