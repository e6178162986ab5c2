//! Sends one message to all targets of a publisher.
//!
//! [`crate::Publisher`] calls this for each message. The usual case, a queue with free capacity, is
//! the short path; everything else is out of line. Never wakes the receiver of a message that went
//! straight into its queue: the publisher does so afterwards, once for one message or for a batch.

use crate::NodeError;
use crate::buffer::Reference;
use crate::transport::{Message, Sent, StoredTarget};

/// The outcome of publishing a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Subscribers that have it in their queue; a core counts as one.
    pub delivered: u32,
    /// Subscribers that did not get it: their queue was full, there was no memory for a queue, or
    /// the subscriber is a core that cannot see the buffer.
    pub dropped: u32,
    /// Older messages that it evicted, from queues of subscribers that evict the oldest.
    pub evicted: u32,
}

/// One reference for each target; the last target gets the caller's. Targets that may block come
/// last, so that the others do not wait for them.
#[inline(always)]
pub(crate) fn deliver(
    targets: &mut [StoredTarget],
    message: &mut Message<'_>,
    reference: &mut Reference,
) -> Result<Published, Box<NodeError>> {
    let (shared, slot) = (message.shared, message.slot);
    let control = shared.pool().control();
    let mut published = Published::default();
    if targets.is_empty() {
        return Ok(published);
    }
    if targets.len() > 1 {
        // Fits: there are at most as many targets as connections.
        let more = targets.len() as u32 - 1;
        shared
            .act(|member| member.duplicate(control, slot, more))
            .map_err(boxed)?;
    }
    message.targets = targets.len();
    if let [only] = targets {
        // The usual case: no list of who is waited for, nothing to sum up.
        let sent = only.send(message);
        if !matches!(sent, Sent::Delivered) {
            return settle_one(only, sent, message, reference);
        }
        reference.moved_from(shared);
        published.delivered = 1;
        published.evicted = message.evicted;
        return Ok(published);
    }
    deliver_to_many(targets, message, reference)
}

/// The only target did not take the message at once.
#[cold]
fn settle_one(
    target: &mut StoredTarget,
    sent: Sent,
    message: &mut Message<'_>,
    reference: &mut Reference,
) -> Result<Published, Box<NodeError>> {
    let (mut published, mut failed, mut absent) = (Published::default(), None, 0);
    match sent {
        Sent::Delivered => published.delivered = 1,
        Sent::Dropped => published.dropped = 1,
        Sent::Absent => absent = 1,
        Sent::Full => {
            // It does not wait for what came before in its batch.
            hythe_memory::full_barrier();
            target.wake();
            let sent = target.send_waiting(message);
            published.count(sent, &mut failed);
        }
        Sent::Failed(error) => published.count(Err(error), &mut failed),
    }
    settle(message, reference, (published, absent), failed)
}

#[inline(never)]
fn deliver_to_many(
    targets: &mut [StoredTarget],
    message: &mut Message<'_>,
    reference: &mut Reference,
) -> Result<Published, Box<NodeError>> {
    let mut published = Published::default();
    let (mut failed, mut waited_for, mut absent) = (None, Vec::new(), 0);
    for (index, target) in targets.iter_mut().enumerate() {
        match target.send(message) {
            Sent::Delivered => published.delivered += 1,
            Sent::Dropped => published.dropped += 1,
            Sent::Absent => absent += 1,
            Sent::Full => waited_for.push(index),
            Sent::Failed(error) => published.count(Err(error), &mut failed),
        }
    }
    if !waited_for.is_empty() {
        // The others do not wait for what they have got already, nor these for what came before
        // in their batch.
        hythe_memory::full_barrier();
        for target in targets.iter_mut() {
            target.wake();
        }
    }
    for index in waited_for {
        message.delivered = published.delivered;
        let sent = targets[index].send_waiting(message);
        published.count(sent, &mut failed);
    }
    settle(message, reference, (published, absent), failed)
}

/// The message has gone where it goes; references that nobody took are given back.
fn settle(
    message: &Message<'_>,
    reference: &mut Reference,
    (mut published, absent): (Published, u32),
    failed: Option<Box<NodeError>>,
) -> Result<Published, Box<NodeError>> {
    let (shared, slot) = (message.shared, message.slot);
    reference.moved_from(shared);
    published.evicted = message.evicted;
    let left = published.dropped + absent;
    if left > 0 {
        let control = shared.pool().control();
        shared
            .act(|member| member.release(control, slot, left))
            .map_err(boxed)?;
    }
    match failed {
        None => Ok(published),
        Some(error) => Err(error),
    }
}

impl Published {
    fn count(&mut self, sent: Result<bool, Box<NodeError>>, failed: &mut Option<Box<NodeError>>) {
        match sent {
            Ok(true) => self.delivered += 1,
            Ok(false) => self.dropped += 1,
            Err(error) => {
                self.dropped += 1;
                failed.get_or_insert(error);
            }
        }
    }
}

#[cold]
pub(crate) fn boxed(error: impl Into<NodeError>) -> Box<NodeError> {
    Box::new(error.into())
}
