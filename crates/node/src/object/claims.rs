//! A queue as the agent of a core uses it. A message for the core is claimed first, copied to where
//! the core sees it, and leaves the queue when the core says that it has it. If that never comes,
//! because the core or its agent is dead, or the task that waited, the message is in the queue
//! still, at its old place.
//!
//! Nothing here waits but for the object's lock.

use hythe_pool::{QueuedMessage, Section, Taken};

use super::messages::stored;
use super::sleep::wake;
use super::{Deadline, MessageQueue, SyncError, lock};
use crate::buffer::{Lease, Sample};
use crate::leasing::{LeaseWait, named_lease_in};
use crate::pool::Pool;

/// Slots of that payload, and smaller ones, are many.
const SMALL_SLOT_BYTES: usize = 4096;

/// A message that nobody else takes.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    taken: Taken,
    /// Its priority.
    pub priority: u32,
    /// By which it is [confirmed](MessageQueue::confirm), or given up.
    pub ticket: u32,
}

impl Claimed {
    /// How long the message is.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.taken.descriptor.length as usize
    }

    /// Has it no bytes?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MessageQueue {
    /// Claims the message that goes next; `None`: there is none.
    ///
    /// # Errors
    /// Not opened for receiving; a damaged object.
    #[doc(hidden)]
    pub fn claim(&self) -> Result<Option<Claimed>, SyncError> {
        self.check_receiving()?;
        let mut entered = self.enter()?;
        let section = &mut entered.section;
        let Some((message, taken)) = self.next_stored(section)? else {
            return Ok(None);
        };
        section.claim(message, lock::party(&self.opened.shared));
        Ok(Some(Claimed {
            taken,
            priority: message.priority,
            ticket: message.order,
        }))
    }

    /// Copies a claimed message into a lease, from `at` on.
    ///
    /// # Errors
    /// The region of the message cannot be mapped.
    ///
    /// # Panics
    /// If it does not fit.
    #[doc(hidden)]
    pub fn copy_claimed(
        &self,
        claimed: &Claimed,
        lease: &mut Lease,
        at: usize,
    ) -> Result<(), SyncError> {
        let descriptor = claimed.taken.descriptor;
        let from = self.opened.shared.pool().map(descriptor.place.region)?;
        let first = claimed.taken.slot_offset + descriptor.offset as usize;
        lease.copy_in(at, from, first, claimed.len());
        Ok(())
    }

    /// The core has the message: it leaves the queue. False: it was not claimed by this node.
    ///
    /// # Errors
    /// A damaged object.
    #[doc(hidden)]
    pub fn confirm(&self, ticket: u32) -> Result<bool, SyncError> {
        self.end(ticket, |queue, section, message| {
            let pool = queue.opened.shared.pool();
            // What the store does not have any more goes with the next look.
            if let Some(taken) = stored(pool, queue.store, message) {
                drop(queue.take(section, message, taken)?);
            }
            Ok(())
        })
    }

    /// The core does not get the message: it is anybody's again, at its old place. False: as
    /// [`confirm`](Self::confirm).
    ///
    /// # Errors
    /// A damaged object.
    #[doc(hidden)]
    pub fn give_up(&self, ticket: u32) -> Result<bool, SyncError> {
        self.end(ticket, |_, section, message| {
            section.end_claim(message);
            Ok(())
        })
    }

    /// Ends a claim, and wakes whoever waits for space, or for a message.
    fn end(
        &self,
        ticket: u32,
        end: impl FnOnce(
            &Self,
            &mut Section<'_, hythe_memory::Mapped>,
            QueuedMessage,
        ) -> Result<(), SyncError>,
    ) -> Result<bool, SyncError> {
        let end_within = || -> Result<bool, SyncError> {
            let mut entered = self.enter()?;
            let section = &mut entered.section;
            let own = lock::party(&self.opened.shared);
            let Some(message) = section.claimed(own, ticket)? else {
                return Ok(false);
            };
            end(self, section, message)?;
            Ok(true)
        };
        let is_ended = self.opened.unless_lost(end_within())?;
        if is_ended {
            wake(self.opened.table()?, self.opened.info.index, u32::MAX >> 1);
        }
        Ok(is_ended)
    }

    /// Sends a buffer that came from a core, without waiting. The message stays in it, but for a
    /// small one in a large slot: those are few, and the queue may keep it for ever.
    ///
    /// # Errors
    /// As [`send`](Self::send). The buffer goes back then.
    #[doc(hidden)]
    pub fn send_sample(&self, mut sample: Sample, priority: u32) -> Result<(), SyncError> {
        self.check_sending(sample.len(), priority)?;
        if !wastes_its_slot(self.opened.shared.pool(), &sample) {
            return self.send_reference(sample.as_reference(), priority, Deadline::Now);
        }
        if !self.has_room()? {
            return Err(SyncError::WouldBlock("the queue is full"));
        }
        let (shared, region) = (&self.opened.shared, hythe_abi::RegionIndex(0));
        let mut lease = named_lease_in(shared, region, sample.len(), LeaseWait::NONE)?;
        lease.copy_from(&sample);
        self.send(lease, sample.len(), priority, Deadline::Now)
    }

    /// Is there a place for one more message?
    ///
    /// # Errors
    /// Not opened for sending; a damaged object.
    #[doc(hidden)]
    pub fn has_room(&self) -> Result<bool, SyncError> {
        self.check_sending(0, 0)?;
        let has_room = self.enter()?.section.has_room();
        self.opened.unless_lost(has_room.map_err(SyncError::from))
    }

    /// A task of the core begins to wait for a message, or ends it: meanwhile nobody is notified.
    ///
    /// # Errors
    /// The queue is gone.
    #[doc(hidden)]
    pub fn note_waiting(&self, waits: bool) -> Result<(), SyncError> {
        let party = lock::party(&self.opened.shared);
        let table = self.opened.table()?;
        table.note_receiver(self.opened.info.index, party, waits);
        Ok(())
    }

    /// Registers this node to be notified of a message, without a callback: ask
    /// [`is_notified`](Self::is_notified) by the number.
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    #[doc(hidden)]
    pub fn register_notification(&self) -> Result<u32, SyncError> {
        self.register()
    }

    /// Has that registration ended with a message?
    ///
    /// # Errors
    /// A damaged object.
    #[doc(hidden)]
    pub fn is_notified(&self, number: u32) -> Result<bool, SyncError> {
        let is_notified = self.enter()?.section.is_notified(number);
        self.opened.unless_lost(Ok(is_notified))
    }
}

fn wastes_its_slot(pool: &Pool, sample: &Sample) -> bool {
    let place = sample.descriptor().place;
    let class = pool
        .regions()
        .region(place.region)
        .and_then(|region| region.class_of(place.slot));
    let capacity = class.map_or(0, hythe_pool::SlotClass::payload_bytes);
    capacity > SMALL_SLOT_BYTES && capacity > 4 * sample.len()
}
