//! Messages that have come and were not wanted yet, and which of them is.

use std::collections::VecDeque;

use crate::buffer::Buffer;

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
}

/// Messages in the order in which they came.
#[derive(Debug, Default)]
pub struct Inbox {
    messages: VecDeque<(u64, Buffer)>,
    came: u64,
}

impl Inbox {
    /// One has come.
    pub fn push(&mut self, message: Buffer) {
        self.came += 1;
        self.messages.push_back((self.came, message));
    }

    /// The first that is wanted stays; its number.
    #[must_use]
    pub fn find(&self, wanted: &Wanted) -> Option<u64> {
        let mut messages = self.messages.iter();
        let found = messages.find(|(_, message)| wanted.is(message));
        found.map(|(number, _)| *number)
    }

    /// Takes the message with a number.
    pub fn take(&mut self, number: u64) -> Option<Buffer> {
        let at = self.messages.iter().position(|(one, _)| *one == number)?;
        self.messages.remove(at).map(|(_, message)| message)
    }

    /// Puts a message back to where it was.
    pub fn put_back(&mut self, number: u64, message: Buffer) {
        let at = self.messages.partition_point(|(one, _)| *one < number);
        self.messages.insert(at, (number, message));
    }

    /// The first message behind that with number `after`: its number.
    #[must_use]
    pub fn next(&self, after: u64) -> Option<u64> {
        let at = self.messages.partition_point(|(one, _)| *one <= after);
        self.messages.get(at).map(|(number, _)| *number)
    }
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
    fn the_first_that_matches_is_found() {
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
    fn what_is_put_back_keeps_its_place() {
        let mut inbox = Inbox::default();
        (1..=3).for_each(|tag| inbox.push(message(1, tag, 0)));
        let second = inbox.take(2).expect("it is there");
        assert_eq!(inbox.next(1), Some(3));
        inbox.put_back(2, second);
        assert_eq!(inbox.next(0), Some(1));
        assert_eq!(inbox.next(1), Some(2));
        assert_eq!(inbox.take(9), None);
    }
}
