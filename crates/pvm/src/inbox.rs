//! Messages that have come and were not wanted yet, and which of them is.

use hythe_cluster::tasks::arrivals::{Arrivals, Label, Pattern};

use crate::buffer::Buffer;

/// What a message that is kept costs beside its frame: what is known of it, its place among the
/// others and in an index, and the allocator's share.
const KEPT_COST: usize = 384;

/// What `pvm_recv` and its kind look for. Sender and tag of -1 match any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Number of the sender, or -1.
    pub source: i32,
    /// Its tag, or -1.
    pub tag: i32,
    /// The context, which always has to be the same.
    pub context: i32,
}

impl Wanted {
    /// Is it this message?
    #[must_use]
    pub fn is(&self, message: &Buffer) -> bool {
        let info = &message.info;
        info.context == self.context
            && [-1, info.source].contains(&self.source)
            && [-1, info.tag].contains(&self.tag)
    }

    fn pattern(self) -> Pattern {
        let any_or = |number: i32| (number != -1).then_some(number.cast_unsigned());
        Pattern {
            context: self.context.cast_unsigned(),
            source: any_or(self.source),
            tag: any_or(self.tag),
        }
    }
}

/// Messages in the order in which they came.
#[derive(Debug, Default)]
pub struct Inbox {
    messages: Arrivals<Buffer>,
    kept_bytes: usize,
}

impl Inbox {
    /// One has come.
    pub fn push(&mut self, message: Buffer) {
        self.kept_bytes += cost(&message);
        let label = Label {
            context: message.info.context.cast_unsigned(),
            source: message.info.source.cast_unsigned(),
            tag: message.info.tag.cast_unsigned(),
        };
        self.messages.push(label, message);
    }

    /// What the messages take in memory.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The first that is wanted stays; its number.
    pub fn find(&mut self, wanted: &Wanted) -> Option<u64> {
        self.messages.find(wanted.pattern())
    }

    /// The message with a number stays.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Buffer> {
        self.messages.get(number)
    }

    /// Takes the message with a number.
    pub fn take(&mut self, number: u64) -> Option<Buffer> {
        let message = self.messages.take(number)?;
        self.kept_bytes -= cost(&message);
        Some(message)
    }

    /// The first message behind that with number `after`: its number.
    #[must_use]
    pub fn next(&self, after: u64) -> Option<u64> {
        self.messages.next(after)
    }
}

/// The same as long as the message is in the inbox, where nobody changes it.
fn cost(message: &Buffer) -> usize {
    message.len() + KEPT_COST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Encoding;

    fn message(source: i32, tag: i32, context: i32) -> Buffer {
        let mut message = Buffer::new(Encoding::Raw);
        message.info.source = source;
        message.info.tag = tag;
        message.info.context = context;
        message
    }

    #[test]
    fn first_that_matches_is_found() {
        let mut inbox = Inbox::default();
        for (source, tag, context) in [(1, 10, 0), (2, 20, 0), (1, 20, 0), (1, 20, 5)] {
            inbox.push(message(source, tag, context));
        }
        for (source, tag, context, number) in [
            (-1, -1, 0, Some(1)),
            (2, -1, 0, Some(2)),
            (-1, 20, 0, Some(2)),
            (1, 20, 0, Some(3)),
            (-1, -1, 5, Some(4)),
            (2, 10, 0, None),
            (-1, -1, 6, None),
        ] {
            let wanted = Wanted {
                source,
                tag,
                context,
            };
            assert_eq!(inbox.find(&wanted), number, "{wanted:?}");
        }
    }

    #[test]
    fn messages_are_walked_in_order_and_counted() {
        let mut inbox = Inbox::default();
        (1..=3).for_each(|tag| inbox.push(message(1, tag, 0)));
        assert_eq!(inbox.kept_bytes(), 3 * KEPT_COST);
        assert_eq!(inbox.get(2).map(|second| second.info.tag), Some(2));
        assert!(inbox.take(2).is_some());
        assert_eq!(inbox.next(0), Some(1));
        assert_eq!(inbox.next(1), Some(3));
        assert_eq!(inbox.take(9), None);
        assert_eq!(inbox.kept_bytes(), 2 * KEPT_COST);
    }
}
