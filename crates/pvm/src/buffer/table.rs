//! The buffers of a task, by their numbers, and which of them are active.

use super::{Buffer, Encoding};
use crate::code::Code;

/// Buffers of a task. Numbers count from 1 on, and are used again.
#[derive(Debug, Default)]
pub struct Buffers {
    buffers: Vec<Option<Buffer>>,
    free: Vec<usize>,
    send: Option<usize>,
    receive: Option<usize>,
}

impl Buffers {
    /// Keeps a buffer; its number.
    pub fn insert(&mut self, buffer: Buffer) -> i32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[index] = Some(buffer);
        number(index)
    }

    /// The buffer with a number.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`]: no number of a buffer; [`Code::NO_SUCH_BUFFER`].
    pub fn find(&mut self, number: i32) -> Result<&mut Buffer, Code> {
        let index = self.index(number)?;
        let slot = self.buffers.get_mut(index);
        slot.and_then(Option::as_mut).ok_or(Code::NO_SUCH_BUFFER)
    }

    /// Gives up a buffer, which may be active.
    ///
    /// # Errors
    /// As [`Buffers::find`].
    pub fn remove(&mut self, number: i32) -> Result<Buffer, Code> {
        let index = self.index(number)?;
        let slot = self.buffers.get_mut(index).and_then(Option::take);
        let buffer = slot.ok_or(Code::NO_SUCH_BUFFER)?;
        self.free.push(index);
        for active in [&mut self.send, &mut self.receive] {
            if *active == Some(index) {
                *active = None;
            }
        }
        Ok(buffer)
    }

    /// Begins a new message in place of the active one.
    pub fn begin_send(&mut self, encoding: Encoding) -> i32 {
        if let Some(index) = self.send {
            // It is there: it was active.
            let _ = self.remove(number(index));
        }
        let begun = self.insert(Buffer::new(encoding));
        self.send = Some(begun as usize - 1);
        begun
    }

    /// A message that came becomes the active one, in place of that before.
    pub fn begin_receive(&mut self, message: Buffer) -> i32 {
        if let Some(index) = self.receive {
            let _ = self.remove(number(index));
        }
        let begun = self.insert(message);
        self.receive = Some(begun as usize - 1);
        begun
    }

    /// The active send buffer.
    ///
    /// # Errors
    /// [`Code::NO_BUFFER`].
    pub fn sending(&mut self) -> Result<&mut Buffer, Code> {
        let number = self.send.map(number).ok_or(Code::NO_BUFFER)?;
        self.find(number)
    }

    /// The active receive buffer.
    ///
    /// # Errors
    /// [`Code::NO_BUFFER`].
    pub fn receiving(&mut self) -> Result<&mut Buffer, Code> {
        let number = self.receive.map(number).ok_or(Code::NO_BUFFER)?;
        self.find(number)
    }

    /// Number of the active send buffer; 0: there is none.
    #[must_use]
    pub fn send_number(&self) -> i32 {
        self.send.map_or(0, number)
    }

    /// Number of the active receive buffer; 0: there is none.
    #[must_use]
    pub fn receive_number(&self) -> i32 {
        self.receive.map_or(0, number)
    }

    /// Makes another send buffer active, 0: none; the one before is kept. Its number, or 0.
    ///
    /// # Errors
    /// As [`Buffers::find`].
    pub fn set_send(&mut self, number: i32) -> Result<i32, Code> {
        let before = self.send_number();
        self.send = self.checked(number)?;
        Ok(before)
    }

    /// Makes another receive buffer active, which is unpacked from its begin; 0: none; the one
    /// before is kept. Its number, or 0.
    ///
    /// # Errors
    /// As [`Buffers::find`].
    pub fn set_receive(&mut self, number: i32) -> Result<i32, Code> {
        let before = self.receive_number();
        self.receive = self.checked(number)?;
        Ok(before)
    }

    fn checked(&mut self, number: i32) -> Result<Option<usize>, Code> {
        match number {
            0 => Ok(None),
            _ => self.find(number).map(|_| Some(number as usize - 1)),
        }
    }

    fn index(&self, number: i32) -> Result<usize, Code> {
        match usize::try_from(number) {
            Ok(number) if number > 0 => Ok(number - 1),
            _ => Err(Code::BAD_PARAMETER),
        }
    }
}

/// A task has fewer than 2^31 buffers: each has more than one byte.
const fn number(index: usize) -> i32 {
    index as i32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_message_takes_the_place_of_the_one_before() {
        let mut buffers = Buffers::default();
        assert_eq!(buffers.sending().err(), Some(Code::NO_BUFFER));
        let first = buffers.begin_send(Encoding::Xdr);
        assert_eq!(
            buffers.begin_send(Encoding::Raw),
            first,
            "the number is free"
        );
        let kept = buffers.set_send(0).expect("none");
        assert_eq!((kept, buffers.send_number()), (first, 0));
        let second = buffers.begin_send(Encoding::Xdr);
        assert_ne!(second, kept, "a kept buffer stays");
        assert_eq!(buffers.set_send(kept), Ok(second));
    }

    #[test]
    fn what_is_given_up_is_gone_and_not_active() {
        let mut buffers = Buffers::default();
        let number = buffers.begin_receive(Buffer::new(Encoding::Raw));
        assert!(buffers.remove(number).is_ok());
        assert_eq!(buffers.receive_number(), 0);
        assert_eq!(buffers.remove(number).err(), Some(Code::NO_SUCH_BUFFER));
        for bad in [0, -1, i32::MIN] {
            assert_eq!(buffers.remove(bad).err(), Some(Code::BAD_PARAMETER));
        }
        assert_eq!(buffers.set_receive(77), Err(Code::NO_SUCH_BUFFER));
        assert_eq!(buffers.set_send(-3), Err(Code::BAD_PARAMETER));
    }
}
