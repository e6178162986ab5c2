//! Moving a reference through a queue. The count in the slot's cell does not change: only who answers for it.

use hythe_abi::{Descriptor, RegionIndex};
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
        self.take_announced(control, regions, end, |_, _| {})
    }

    /// As [`take`](Self::take); says early where the payload begins, so that its first line comes while the ledger is asked.
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
        let found = check_place(control, regions, descriptor).and_then(|found| {
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

/// Has the lines come that the take and the release of a message will need which waits `ahead` of the next one, if it was seen
/// waiting: its cell was last changed by whoever leased the slot. Says where its payload begins. Takes nothing and believes
/// nothing.
#[inline(always)]
pub fn expect_take<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    end: &ConnectionEnd<Consumer>,
    ahead: u32,
) -> Option<(RegionIndex, usize)> {
    if end.info.drops_oldest {
        // Where its head stands, only a take finds out.
        return None;
    }
    let descriptor = end.queue.peek_seen(control.memory(), ahead)?;
    let found = regions.check(descriptor).ok()?;
    control.memory().expect_store(control.slot_at(found.slot));
    let payload = found.slot_offset + descriptor.offset as usize;
    Some((descriptor.place.region, payload))
}

/// Checks a claimed descriptor against geometry and ledger.
#[inline(always)]
pub(crate) fn check_current<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    descriptor: Descriptor,
) -> Result<ClaimedSlot, PoolError> {
    let found = check_place(control, regions, descriptor)?;
    check_generation(control, found, descriptor)
}

#[inline(always)]
fn check_place<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    descriptor: Descriptor,
) -> Result<ClaimedSlot, PoolError> {
    if regions.region(descriptor.place.region).is_none() {
        // It may have been added since we last looked. If it makes no sense, it is not there for us.
        let _ = regions.refresh(control);
    }
    regions.check(descriptor)
}

#[inline(always)]
fn check_generation<M: Memory>(
    control: &Control<M>,
    found: ClaimedSlot,
    descriptor: Descriptor,
) -> Result<ClaimedSlot, PoolError> {
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
