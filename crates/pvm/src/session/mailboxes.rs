//! Mailboxes.

use super::Session;
use crate::buffer::Buffer;
use crate::code::Code;
use crate::machine::{MailboxClass, Reply, Request};

impl<F: Clone> Session<F> {
    /// Puts a buffer down under a name: its number there. `in_place` as for
    /// [`Session::send`].
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`], [`Code::NO_SUCH_BUFFER`], [`Code::EXISTS`], [`Code::DENIED`],
    /// [`Code::OUT_OF_RESOURCES`].
    pub fn put(
        &mut self,
        class: &str,
        buffer: i32,
        flags: i32,
        in_place: Option<&[u8]>,
    ) -> Result<i32, Code> {
        let (own, context) = (self.task().number(), self.context);
        let buffer = self.buffers.find(buffer)?;
        buffer.info.source = own;
        buffer.info.context = context;
        let mut message = buffer.frame().to_vec();
        message.extend_from_slice(in_place.unwrap_or_default());
        let class = class.to_owned();
        self.ask_number(Request::Put {
            class,
            flags,
            message,
        })
    }

    /// Reads what lies under a name: the number of a buffer, which is active.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`], [`Code::NOT_FOUND`], [`Code::DENIED`].
    pub fn read(&mut self, class: &str, index: i32, flags: i32) -> Result<i32, Code> {
        let reply = self.machine.ask(take(class, index, flags))?;
        self.end_read(reply)
    }

    /// Asks for what lies there, which may come only when another task puts it down.
    ///
    /// # Errors
    /// As [`Session::begin_barrier`].
    pub fn begin_read(&mut self, class: &str, index: i32, flags: i32) -> Result<(), Code> {
        self.machine.begin(take(class, index, flags))
    }

    /// What was asked for with [`Session::begin_read`].
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn end_read(&mut self, reply: Reply) -> Result<i32, Code> {
        match reply {
            Reply::Message(frame) => {
                let message = Buffer::from_frame(frame).ok_or(Code::BAD_MESSAGE)?;
                Ok(self.buffers.begin_receive(message))
            }
            Reply::Refused(code) => Err(code),
            _ => Err(Code::BAD_MESSAGE),
        }
    }

    /// Takes it away.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn delete(&mut self, class: &str, index: i32) -> Result<i32, Code> {
        let class = class.to_owned();
        self.ask_number(Request::Delete { class, index })
    }

    /// What there is, of names that match.
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn classes(&mut self, pattern: &str) -> Result<Vec<MailboxClass>, Code> {
        let pattern = pattern.to_owned();
        match self.machine.ask(Request::Classes { pattern })? {
            Reply::Classes(classes) => Ok(classes),
            Reply::Refused(code) => Err(code),
            _ => Err(Code::BAD_MESSAGE),
        }
    }
}

fn take(class: &str, index: i32, flags: i32) -> Request {
    Request::Take {
        class: class.to_owned(),
        index,
        flags,
    }
}
