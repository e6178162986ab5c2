//! Sending.

use super::Session;
use crate::buffer::{BYTES_MAX, Buffer, Encoding, Kind};
use crate::code::Code;
use crate::options::Opt;
use crate::tid::Tid;

impl<F: Clone> Session<F> {
    /// Sends the active buffer. `in_place` is the body of one that was packed in place.
    ///
    /// # Errors
    /// [`Code::NO_BUFFER`]; [`Code::BAD_PARAMETER`]: no task, or a negative tag;
    /// [`Code::OUT_OF_RESOURCES`]; [`Code::SYSTEM`].
    pub fn send(&mut self, to: i32, tag: i32, in_place: Option<&[u8]>) -> Result<(), Code> {
        self.multicast(&[to], tag, in_place)
    }

    /// Sends the active buffer to each of these, but not to this task itself if there are others.
    ///
    /// # Errors
    /// As [`Session::send`]; nothing was sent if one of them is no task.
    pub fn multicast(&mut self, to: &[i32], tag: i32, in_place: Option<&[u8]>) -> Result<(), Code> {
        self.check_tag(tag)?;
        let all: Option<Vec<Tid>> = to.iter().map(|one| task(*one)).collect();
        let all = all.ok_or(Code::BAD_PARAMETER)?;
        let number = self.buffers.send_number();
        let (context, own) = (self.context, self.task());
        let mut built = match in_place {
            Some(body) => {
                let mut built = Buffer::new(Encoding::Raw);
                built.pack(Kind::Byte, body, body.len(), 1)?;
                built.info = self.buffers.sending()?.info;
                Some(built)
            }
            None => None,
        };
        for to in all {
            let buffer = match &mut built {
                Some(built) => built,
                None => self.buffers.sending()?,
            };
            buffer.info.context = context;
            buffer.info.tag = tag;
            buffer.info.source = own.number();
            buffer.info.destination = to.number();
            match to == own {
                true => {
                    let frame = buffer.frame().to_vec();
                    self.send_to_self(frame)?;
                }
                false => self.machine.send(to, buffer.frame())?,
            }
        }
        // What `pvm_setminfo` set is for one message.
        if let Ok(sent) = self.buffers.find(number) {
            sent.info.wait_id = 0;
        }
        Ok(())
    }

    /// Sends raw bytes, and leaves the active buffer alone.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub fn send_bytes(&mut self, to: i32, tag: i32, bytes: &[u8]) -> Result<(), Code> {
        self.check_tag(tag)?;
        self.send_in(self.context, to, tag, bytes)
    }

    pub(super) fn send_in(
        &mut self,
        context: i32,
        to: i32,
        tag: i32,
        bytes: &[u8],
    ) -> Result<(), Code> {
        let to = task(to).ok_or(Code::BAD_PARAMETER)?;
        if bytes.len() > BYTES_MAX {
            return Err(Code::NO_MEMORY);
        }
        let mut buffer = Buffer::new(Encoding::Raw);
        buffer.pack(Kind::Byte, bytes, bytes.len(), 1)?;
        buffer.info.context = context;
        buffer.info.tag = tag;
        buffer.info.source = self.task().number();
        buffer.info.destination = to.number();
        match to == self.task() {
            true => {
                let frame = buffer.frame().to_vec();
                self.send_to_self(frame)
            }
            false => self.machine.send(to, buffer.frame()),
        }
    }

    /// Messages to itself lie in no queue, so they have the limit of those that have come.
    fn send_to_self(&mut self, frame: Vec<u8>) -> Result<(), Code> {
        // Where sending to others fails, this does, too.
        self.machine.check_descriptors()?;
        let bytes = self.own_bytes + frame.len();
        if bytes > self.machine.kept_bytes_max() {
            return Err(Code::OUT_OF_RESOURCES);
        }
        self.own_bytes = bytes;
        self.own.push_back(frame);
        Ok(())
    }

    fn check_tag(&self, tag: i32) -> Result<(), Code> {
        match tag >= 0 || self.options.value(Opt::RESERVED) != 0 {
            true => Ok(()),
            false => Err(Code::BAD_PARAMETER),
        }
    }
}

fn task(number: i32) -> Option<Tid> {
    Some(Tid::from_number(number)).filter(|tid| tid.is_task())
}
