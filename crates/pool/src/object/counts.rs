//! What objects count, as their words stand at one moment: for looking at, without a lock.

use hythe_abi::objects::{HOLDERS_MAX, holder, object};
use hythe_memory::Memory;

use super::{ObjectIndex, ObjectTable};

/// Numbers of an object, as they stand there: somebody may be changing them, and nobody has checked
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// A semaphore's value.
    pub value: u32,
    /// A queue's messages.
    pub messages: u32,
    /// Counts of a semaphore that were taken and not posted.
    pub held: u32,
    /// Threads that sleep for a change of it.
    pub waiting: u32,
    /// Posts, or messages accepted. Wraps, as the next.
    pub accepted: u32,
    /// Waits that were granted, or messages delivered.
    pub delivered: u32,
    /// Counts that dead holders had and nobody gave back.
    pub abandoned: u32,
    /// Holders that died.
    pub owners_died: u32,
    /// Counts given back for dead holders.
    pub recovered: u32,
    /// Counts taken while the table of holders was full: nobody knows whose they are.
    pub untracked: u32,
}

impl<M: Memory> ObjectTable<M> {
    /// What an object counts.
    pub fn counts(&self, index: ObjectIndex) -> ObjectCounts {
        let word = |at| self.word(index, at);
        let holders = (0..HOLDERS_MAX).map(|place| object::HOLDERS + place * holder::BYTES);
        let held = holders.map(|at| word(at + holder::COUNT));
        ObjectCounts {
            value: word(object::VALUE),
            messages: self.messages_seen(index),
            held: held.fold(0, u32::saturating_add),
            waiting: word(object::SLEEPERS),
            accepted: word(object::ACCEPTED),
            delivered: word(object::DELIVERED),
            abandoned: word(object::ABANDONED),
            owners_died: word(object::OWNERS_DIED),
            recovered: word(object::RECOVERED),
            untracked: word(object::UNTRACKED),
        }
    }
}
