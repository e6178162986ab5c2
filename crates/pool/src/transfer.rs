//! Moving a reference through a queue. The count in the slot's cell does not change: only who answers for it.

use hythe_abi::Descriptor;
use hythe_memory::Memory;
use hythe_queue::{Consumer, Producer, QueueError};

use crate::connections::ConnectionEnd;
use crate::control::Control;
use crate::holds::{hold, set_hold};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::regions::Regions;
use crate::{Member, PoolError};

/// A reference taken out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The payload.
    pub descriptor: Descriptor,
    /// Its slot.
    pub slot: LedgerSlot,
}

/// Why a reference was not sent. It is still the sender's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue is full.
    #[error("the receiver's queue is full")]
    Full,
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl Member {
    /// Moves one own reference into a queue.
    ///
    /// # Errors
    /// [`SendError::Full`]; [`PoolError::Damaged`] if the consumer's counter is impossible or this participant holds nothing.
    pub fn send<M: Memory>(
        &mut self,
        control: &Control<M>,
        end: &mut ConnectionEnd<Producer>,
        slot: LedgerSlot,
        descriptor: Descriptor,
    ) -> Result<(), SendError> {
        let before = self.held(control, slot, 1)?;
        let step = Step {
            slot: slot.0,
            before: before.to_bits(),
            connection: end.info.index.0,
            position: end.queue.tail(),
            ..Step::default()
        };
        journal::begin(control, self, Operation::Send, step);
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
    pub fn take<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        end: &mut ConnectionEnd<Consumer>,
    ) -> Result<Option<Taken>, PoolError> {
        let peeked = end.queue.peek(control.memory());
        let descriptor = match peeked {
            Ok(Some(descriptor)) => descriptor,
            Ok(None) => return Ok(None),
            Err(QueueError::Violated { own, claimed }) => return Err(violated(own, claimed)),
            Err(QueueError::Full) => return Ok(None),
        };
        let slot = match check_current(control, regions, descriptor) {
            Ok(slot) => slot,
            Err(refused) => {
                end.queue.advance(control.memory());
                return Err(refused);
            }
        };
        let before = hold(control, self.index().0, slot);
        let Some(after) = before.gained(1, self.now()) else {
            end.queue.advance(control.memory());
            return Err(PoolError::BadDescriptor {
                reason: "more references than a slot can have",
                descriptor,
            });
        };
        let step = Step {
            slot: slot.0,
            before: before.to_bits(),
            connection: end.info.index.0,
            position: end.queue.head(),
            ..Step::default()
        };
        journal::begin(control, self, Operation::Take, step);
        set_hold(control, self.index().0, slot, after);
        end.queue.advance(control.memory());
        journal::end(control, self);
        Ok(Some(Taken { descriptor, slot }))
    }
}

/// Checks a claimed descriptor against geometry and ledger.
fn check_current<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    descriptor: Descriptor,
) -> Result<LedgerSlot, PoolError> {
    if regions.region(descriptor.place.region).is_none() {
        // It may have been added since we last looked. If it makes no sense, it is not there for us.
        let _ = regions.refresh(control);
    }
    let slot = regions.check(descriptor)?;
    let (references, generation) = control.slot(slot);
    if references == 0 || generation != descriptor.generation {
        return Err(PoolError::BadDescriptor {
            reason: "stale generation",
            descriptor,
        });
    }
    Ok(slot)
}

fn violated(own: u32, claimed: u32) -> PoolError {
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
    ) -> Result<LedgerSlot, PoolError> {
        check_current(self, regions, descriptor)
    }
}
