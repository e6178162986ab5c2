//! A connection of messages between a runner and a part, that never waits.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{Assembler, encode};

/// Beyond so much that was not taken yet nothing is added but what cannot wait.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// The other side takes nothing, and there is more to say than it may leave: it is given up.
const UNSENT_BYTES_LIMIT: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct PartLink {
    stream: UnixStream,
    /// Read, and not taken apart.
    received: VecDeque<u8>,
    assembler: Assembler,
    unsent: Vec<u8>,
    /// Why nothing more comes.
    pub(crate) over: Option<String>,
}

impl PartLink {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            received: VecDeque::new(),
            assembler: Assembler::default(),
            unsent: Vec::new(),
            over: None,
        })
    }

    /// What to wait for.
    pub(crate) fn wanted(&self, reads: bool) -> PollFlags {
        let mut wanted = PollFlags::empty();
        if reads {
            wanted |= PollFlags::IN;
        }
        if !self.unsent.is_empty() {
            wanted |= PollFlags::OUT;
        }
        wanted
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// May output be added?
    pub(crate) fn has_room(&self) -> bool {
        self.unsent.len() < UNSENT_BYTES_MAX
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Has more been read than was taken? What is not a whole message is taken all the same, so
    /// this is false once [`PartLink::next`] has returned none.
    pub(crate) fn has_received(&self) -> bool {
        !self.received.is_empty()
    }

    /// Ends the connection for this reason, if it has not ended for another one. The other side
    /// sees its end, and ends what it has started.
    pub(crate) fn give_up(&mut self, reason: String) {
        self.over.get_or_insert(reason);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends a message, now or as soon as the other side takes it.
    pub(crate) fn say(&mut self, message: &impl Serialize) {
        if self.over.is_some() {
            return;
        }
        if let Err(error) = encode(message, &mut self.unsent) {
            self.give_up(error.to_string());
        } else if self.unsent.len() > UNSENT_BYTES_LIMIT {
            self.give_up("it takes nothing any more".to_owned());
        }
        self.flush();
    }

    pub(crate) fn flush(&mut self) {
        while self.over.is_none() && !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => self.give_up("it has closed".to_owned()),
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.give_up(error.to_string()),
            }
        }
    }

    /// The next message that has come.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut part = [0; 16 << 10];
        loop {
            match self.take_apart() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(reason) => {
                    self.received.clear();
                    self.give_up(reason);
                    return None;
                }
            }
            if self.over.is_some() {
                return None;
            }
            match self.stream.read(&mut part) {
                Ok(0) => self.give_up("it has closed".to_owned()),
                Ok(read) => self.received.extend(&part[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => self.give_up(error.to_string()),
            }
        }
    }

    fn take_apart<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        loop {
            let message = self.assembler.message();
            if let Some(message) = message.map_err(|error| error.to_string())? {
                return Ok(Some(message));
            }
            if self.received.is_empty() {
                return Ok(None);
            }
            let taken = self.assembler.take_in(self.received.as_slices().0);
            let taken = taken.map_err(|error| error.to_string())?;
            self.received.drain(..taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::FromPart;
    use super::*;

    #[test]
    fn messages_come_whole_also_behind_the_end() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let mut one = PartLink::new(one).expect("set");
        let mut other = PartLink::new(other).expect("set");
        let output = FromPart::Output {
            task: "2.1.0".parse().expect("a task"),
            is_error: false,
            bytes: vec![7; 16 << 10],
        };
        assert!(other.next::<FromPart>().is_none() && other.over.is_none());
        // More than the socket keeps.
        for _ in 0..40 {
            one.say(&output);
        }
        assert!(!one.is_flushed());
        let mut count = 0;
        while count < 40 {
            one.flush();
            while let Some(message) = other.next::<FromPart>() {
                assert_eq!(message, output);
                count += 1;
            }
        }
        one.say(&FromPart::InputTaken(3));
        drop(one);
        assert_eq!(other.next(), Some(FromPart::InputTaken(3)));
        assert!(other.next::<FromPart>().is_none() && other.over.is_some());
    }

    #[test]
    fn what_was_read_and_not_taken_is_known() {
        let (mut one, other) = UnixStream::pair().expect("a pair");
        let mut other = PartLink::new(other).expect("set");
        let mut bytes = Vec::new();
        for count in 0..3 {
            encode(&FromPart::InputTaken(count), &mut bytes).expect("short");
        }
        let last = bytes.pop().expect("not empty");
        one.write_all(&bytes).expect("written");
        for count in 0..2 {
            assert_eq!(other.next(), Some(FromPart::InputTaken(count)));
            assert!(other.has_received(), "the next one, or its beginning");
        }
        assert!(other.next::<FromPart>().is_none());
        assert!(!other.has_received(), "half a message is no news");
        one.write_all(&[last]).expect("written");
        assert_eq!(other.next(), Some(FromPart::InputTaken(2)));
        assert!(!other.has_received() && other.over.is_none());
    }

    #[test]
    fn nonsense_ends_it_at_both_ends() {
        let (mut one, other) = UnixStream::pair().expect("a pair");
        let mut other = PartLink::new(other).expect("set");
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 100]);
        one.write_all(&bytes).expect("written");
        assert!(other.next::<FromPart>().is_none() && other.over.is_some());
        assert!(!other.has_received(), "nothing more is heard");
        assert_eq!(one.read(&mut bytes).expect("no error"), 0, "it is told");
    }
}
