//! Receiving: takes in what comes, and finds what is wanted.

use std::time::Duration;

use super::round::is_word;
use super::{Event, Session};
use crate::buffer::Buffer;
use crate::code::Code;
use crate::inbox::{Inbox, Wanted};

/// What was active when a handler began.
#[derive(Clone, Copy, Debug)]
pub struct Active {
    send: i32,
    receive: i32,
}

impl<F: Clone> Session<F> {
    /// Takes in the next message, waiting for at most so long. `None`: none came.
    ///
    /// # Errors
    /// [`Code::OUT_OF_RESOURCES`]: no more are kept until the program receives some of them;
    /// [`Code::SYSTEM`]: the machine is gone.
    pub fn pull(&mut self, timeout: Duration) -> Result<Option<Event<F>>, Code> {
        if let Some(text) = self.caught.take_text() {
            return Ok(Some(Event::Print(text)));
        }
        if self.inbox.kept_bytes() >= self.machine.kept_bytes_max() {
            return Err(Code::OUT_OF_RESOURCES);
        }
        let came = match self.own.pop_front() {
            Some(own) => {
                self.own_bytes -= own.len();
                Some(own)
            }
            None => self.machine.receive(timeout)?,
        };
        let Some(frame) = came else { return Ok(None) };
        let Some(message) = Buffer::from_frame(frame) else {
            self.violations += 1;
            return Ok(Some(Event::Message));
        };
        if is_word(&message.info) {
            self.take_word(message);
            return Ok(Some(Event::Message));
        }
        if self.caught.is_output(&message.info) {
            let is_sound = self.caught.take_in(message);
            self.violations += u64::from(!is_sound);
            let text = self.caught.take_text();
            return Ok(Some(text.map_or(Event::Message, Event::Print)));
        }
        match self.handlers.find(&message.info) {
            Some(call) => Ok(Some(Event::Handle(call, self.buffers.insert(message)))),
            None => {
                self.inbox.push(message);
                Ok(Some(Event::Message))
            }
        }
    }

    /// Drops the messages that were not received, by a task that is about to leave.
    pub fn drop_messages(&mut self) {
        self.inbox = Inbox::default();
        self.probed.clear();
    }

    /// A handler begins: its message is active, and it may send others.
    pub fn begin_handler(&mut self, buffer: i32) -> Active {
        // Both are there, or none.
        Active {
            send: self.buffers.set_send(0).unwrap_or(0),
            receive: self.buffers.set_receive(buffer).unwrap_or(0),
        }
    }

    /// It has ended: its message goes, unless it did already, and what was active is again.
    pub fn end_handler(&mut self, buffer: i32, before: Active) {
        let _ = self.buffers.remove(buffer);
        // What the handler gave up is active no more.
        let _ = self.buffers.set_send(before.send);
        let _ = self.buffers.set_receive(before.receive);
    }

    /// What a call with these arguments looks for. As in PVM, nothing has numbers below -1 but
    /// messages of the machine itself.
    #[must_use]
    pub const fn wanted(&self, source: i32, tag: i32) -> Wanted {
        Wanted {
            source,
            tag,
            context: self.context,
        }
    }

    /// The first message that is wanted becomes the active one: its number.
    pub fn receive(&mut self, wanted: &Wanted) -> Option<i32> {
        let message = self.take(wanted)?;
        Some(self.buffers.begin_receive(message))
    }

    /// The first message that is wanted stays, and gets a number, by which `pvm_bufinfo` finds it.
    /// It is received first.
    pub fn probe(&mut self, wanted: &Wanted) -> Option<i32> {
        let found = self.inbox.find(wanted)?;
        self.number_of(found)
    }

    /// The first message that is wanted, which no buffer keeps.
    pub fn take(&mut self, wanted: &Wanted) -> Option<Buffer> {
        let number = self.inbox.find(wanted)?;
        self.take_numbered(number)
    }

    /// Clears the active receive buffer, as a call that receives does first.
    pub fn clear_receive(&mut self) {
        let active = self.buffers.receive_number();
        let _ = self.buffers.remove(active);
    }

    /// The first message behind one, for a matching function of the program: its place, and its
    /// number as a buffer.
    pub fn next_candidate(&mut self, after: u64) -> Option<(u64, i32)> {
        let place = self.inbox.next(after)?;
        Some((place, self.number_of(place)?))
    }

    /// What the matching function chose becomes the active message.
    pub fn receive_candidate(&mut self, place: u64) -> Option<i32> {
        let message = self.take_numbered(place)?;
        Some(self.buffers.begin_receive(message))
    }

    /// Has the process of a task ended, so that nothing more comes from it?
    ///
    /// # Errors
    /// [`Code::SYSTEM`].
    pub fn has_ended(&mut self, task: i32) -> Result<bool, Code> {
        let task = crate::tid::Tid::from_number(task);
        match task.is_task() && task != self.task() {
            true => self.machine.has_ended(task),
            false => Ok(false),
        }
    }

    /// A message in the inbox as a buffer: one that was numbered before keeps its number.
    fn number_of(&mut self, place: u64) -> Option<i32> {
        if let Some(number) = self.probed.get(&place).copied()
            && self.buffers.find(number).is_ok_and(|it| it.place == place)
        {
            return Some(number);
        }
        let mut copy = self.inbox.get(place)?.clone();
        copy.place = place;
        let number = self.buffers.insert(copy);
        self.probed.insert(place, number);
        Some(number)
    }

    fn take_numbered(&mut self, place: u64) -> Option<Buffer> {
        // The program may have given it up, and its number may be another's.
        if let Some(number) = self.probed.remove(&place)
            && self.buffers.find(number).is_ok_and(|it| it.place == place)
        {
            let _ = self.buffers.remove(number);
        }
        self.inbox.take(place)
    }
}
