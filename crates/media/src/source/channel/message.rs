//! A message of a channel where its publisher wrote it, held for as long as something of it may be
//! needed.

use std::ops::Range;
use std::sync::Arc;

use hythe_node::{Node, NodeError, Sample, TrustPeers};

/// What holds the bytes.
#[derive(Debug)]
enum Held {
    /// A slot of the pool, which goes back when nobody has the message any more.
    Slot(Sample, TrustPeers),
    #[cfg(test)]
    Heap(Vec<u8>),
}

impl Held {
    /// Where the bytes are and how many there are comes from a descriptor that was checked, and
    /// never changes. What they say may change at any time, if the publisher does not keep to what
    /// the trust is about: whoever looks twice may see two things.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Slot(sample, trust) => sample.as_slice(*trust),
            #[cfg(test)]
            Self::Heap(bytes) => bytes,
        }
    }
}

/// A message, or a part of one. Its slot goes back to the pool with the last value that names it.
#[derive(Clone, Debug)]
pub struct Message {
    held: Arc<Held>,
    range: Range<usize>,
}

impl Message {
    /// All of a sample, to be read in place by decision of trust.
    #[must_use]
    pub fn new(sample: Sample, trust: TrustPeers) -> Self {
        Self {
            range: 0..sample.len(),
            held: Arc::new(Held::Slot(sample, trust)),
        }
    }

    #[cfg(test)]
    pub(super) fn on_heap(bytes: &[u8]) -> Self {
        Self {
            held: Arc::new(Held::Heap(bytes.to_vec())),
            range: 0..bytes.len(),
        }
    }

    /// Its bytes, where they were published.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.held.bytes()[self.range.clone()]
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// None at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// A part of it; `range` counts from its first byte.
    ///
    /// # Panics
    ///
    /// If it is not inside.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} of a message of {} bytes",
            self.len()
        );
        let (start, end) = (self.range.start + range.start, self.range.start + range.end);
        Self {
            held: Arc::clone(&self.held),
            range: start..end,
        }
    }

    /// Are both of one slot?
    #[must_use]
    pub fn shares_slot_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// The whole message that this is a part of.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self {
            held: Arc::clone(&self.held),
            range: 0..self.held.bytes().len(),
        }
    }

    /// Where `slice` lies in this message, told by its address; `None` if it lies elsewhere.
    #[must_use]
    pub fn find(&self, slice: &[u8]) -> Option<Range<usize>> {
        let bytes = self.bytes().as_ptr_range();
        let (from, to) = (bytes.start.addr(), bytes.end.addr());
        let at = slice.as_ptr().addr();
        let start = at.checked_sub(from)?;
        let end = start.checked_add(slice.len())?;
        (from + end <= to).then_some(start..end)
    }
}

/// Puts together what two messages have a part of each, in a slot of our own: the one copy that is
/// made of media of a channel.
pub(super) fn join(
    node: &Node,
    trust: TrustPeers,
    front: &[u8],
    behind: &[u8],
) -> Result<Message, NodeError> {
    let bytes = front.len() + behind.len();
    let mut lease = node.lease(bytes)?;
    lease.write(0, front);
    lease.write(front.len(), behind);
    Ok(Message::new(lease.freeze(bytes), trust))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_found_by_their_address_and_nothing_else() {
        let message = Message::on_heap(&[7; 100]);
        let part = message.part(10..90).part(5..50);
        assert_eq!(part.len(), 45);
        assert_eq!(message.find(part.bytes()), Some(15..60));
        assert_eq!(part.find(&part.bytes()[3..]), Some(3..45));
        assert_eq!(part.find(message.bytes()), None);
        assert_eq!(part.find(&message.bytes()[50..70]), None);
        assert_eq!(message.find(&[7; 100]), None);
        assert!(part.shares_slot_with(&message) && part.whole().len() == 100);
        assert!(!message.shares_slot_with(&Message::on_heap(&[7; 100])));
    }
}
