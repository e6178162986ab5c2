//! Messages that are written where they are sent from.

use hythe_node::{Lease, TrustPeers};

use super::Task;
use super::header::HEADER_BYTES;
use super::in_place::Occupied;
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;

/// A message to a task that is being written: in a slot, where there is a free one that is large
/// enough, and this task does not occupy too many of that size, else in this process's memory.
/// Dropped, it is not sent.
#[derive(Debug)]
pub struct MessageLease {
    pub(super) to: TaskId,
    pub(super) bytes: usize,
    pub(super) place: Written,
    _occupied: Option<Occupied>,
}

#[derive(Debug)]
pub(super) enum Written {
    /// Behind the header.
    Slot(Lease),
    Memory(Vec<u8>),
}

impl MessageLease {
    /// For whom.
    #[must_use]
    pub const fn receiver(&self) -> TaskId {
        self.to
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Has it none?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Is it in a slot, so that sending it copies nothing?
    #[must_use]
    pub const fn is_in_slot(&self) -> bool {
        matches!(self.place, Written::Slot(_))
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        let fits = end.is_some_and(|end| end <= self.bytes);
        assert!(fits, "{} bytes at {at} of {}", bytes.len(), self.bytes);
        match &mut self.place {
            Written::Slot(lease) => lease.write(HEADER_BYTES + at, bytes),
            Written::Memory(memory) => memory[at..at + bytes.len()].copy_from_slice(bytes),
        }
    }

    /// Its bytes where they are, to be written in place, by decision of trust. What is not written
    /// may hold bytes of earlier messages.
    #[must_use]
    pub fn as_mut_slice(&mut self, decision: TrustPeers) -> &mut [u8] {
        match &mut self.place {
            Written::Slot(lease) => {
                &mut lease.as_mut_slice(decision)[HEADER_BYTES..HEADER_BYTES + self.bytes]
            }
            Written::Memory(memory) => memory,
        }
    }
}

impl Task {
    /// A message of so many bytes to a task, to be written in place and [sent](Task::send_leased).
    ///
    /// # Errors
    /// As [`Task::send`].
    pub fn lease(&self, to: TaskId, bytes: usize) -> Result<MessageLease, TaskError> {
        let (place, _occupied) = match self.mail.outbox.lease(to, bytes)? {
            Some((lease, occupied)) => (Written::Slot(lease), Some(occupied)),
            None => (Written::Memory(vec![0; bytes]), None),
        };
        Ok(MessageLease {
            to,
            bytes,
            place,
            _occupied,
        })
    }

    /// Sends it, as [`Task::send`]: without a copy if it is in a slot, and the receiver's queue has
    /// a place for it.
    ///
    /// # Errors
    /// As [`Task::send`].
    pub fn send_leased(&self, lease: MessageLease, tag: u32) -> Result<(), TaskError> {
        let header = self.header(0, tag, lease.bytes);
        match lease.place {
            Written::Slot(slot) => self.mail.outbox.send_slot(lease.to, header, slot),
            Written::Memory(bytes) => self.mail.outbox.send(lease.to, header, &bytes),
        }
    }
}
