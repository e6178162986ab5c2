//! The way to the core: reads each sample of the movie straight into a slot, and publishes it.
//!
//! A sample goes to the core [`LEAD_NS`] before its time, or up to [`EARLY_NS`] earlier with
//! others, which hides what decoding takes and bounds what is decoded ahead. A frame of sound that
//! cannot be sent in time is dropped and counted. Units of pictures go in the order of
//! [`UnitOrder`](crate::order::UnitOrder).

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use hythe::media::source::mp4::movie::{self, AudioTrack, PlacedSample, VideoTrack};
use hythe::monotonic_ns;

use crate::error::PlayError;
use crate::method::{Message, Sender};
use crate::order::UnitOrder;
use crate::ports::{TAG_BYTES, UnitTag};
use crate::report::Sent;
use crate::stage::{LOOK, Stage, locked};

/// How long before its time a sample goes to the core at the latest.
pub(crate) const LEAD_NS: i64 = 200_000_000;
/// How much earlier it goes where one before it goes: three pictures, or four frames of sound, for
/// each time that this thread and the core are woken.
const EARLY_NS: i64 = 100_000_000;
/// In front of each NAL unit; as long as the length that it takes the place of.
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// A message that a sample was read into.
struct Filled {
    message: Message,
    bytes: usize,
    /// When reading it began.
    read_ns: u64,
}

/// What came of making a message.
enum Made {
    Filled(Filled),
    /// There is no memory for it now.
    NoSlot,
    /// The sample is.
    Damaged,
}

/// What came of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Sent,
    /// There is no memory, or no place in the queue.
    Full,
    /// It cannot be sent.
    Damaged,
}

/// What both ways to a decoder need.
pub(crate) struct Feeder<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) to_decoder: Box<dyn Sender>,
    /// A sample that is later than this is not sent any more.
    pub(crate) stall_ns: i64,
    /// What was sent, in order.
    pub(crate) sent: &'a Mutex<Vec<Sent>>,
}

impl Feeder<'_> {
    /// Sends all frames of sound.
    pub(crate) fn feed_sound(mut self, track: &AudioTrack) -> Result<(), PlayError> {
        for (number, frame) in track.frames.iter().enumerate() {
            while !self.nap_before(frame.time_ns)? {}
            self.deliver(number as u32, frame.time_ns, |feeder| {
                let bytes = frame.bytes as usize;
                let Some(mut message) = feeder.to_decoder.lease(bytes)? else {
                    return Ok(Made::NoSlot);
                };
                let read_ns = monotonic_ns();
                feeder.read(&mut message, frame, 0)?;
                Ok(Made::Filled(Filled {
                    message,
                    bytes,
                    read_ns,
                }))
            })?;
        }
        Ok(())
    }

    /// Sends all access units, and what ends the stream, until the last picture was shown: a
    /// decoder that begins anew wants some of them again.
    pub(crate) fn feed_picture(mut self, track: &VideoTrack) -> Result<(), PlayError> {
        let mut order = UnitOrder::new(&track.units);
        let end_ns = movie::end_ns(&track.units);
        while !self.stage.are_pictures_over() {
            order.follow(self.stage.wanted());
            if let Some(at) = self.stage.at() {
                let late_ns = at.saturating_sub(self.stall_ns);
                order.catch_up(late_ns, at.saturating_add(LEAD_NS));
            }
            let Some((tag, unit)) = order.next() else {
                self.stage.go_on()?;
                std::thread::sleep(LOOK / 10);
                continue;
            };
            if !self.nap_before(unit.map_or(end_ns, |unit| unit.time_ns))? {
                continue;
            }
            let made = |feeder: &mut Self| match unit {
                Some(unit) => feeder.unit(track, unit, tag),
                None => feeder.end(tag),
            };
            let is_worth = |stage: &Stage| {
                stage.go_on()?;
                Ok(!stage.are_pictures_over())
            };
            match self.attempt(tag.number, is_worth, made)? {
                Attempt::Sent => order.sent(),
                Attempt::Damaged => order.damaged(),
                Attempt::Full => {}
            }
        }
        Ok(())
    }

    /// Is it time to send what is shown at `time_ns`? If not, sleeps for a while.
    fn nap_before(&self, time_ns: i64) -> Result<bool, PlayError> {
        let due_ns = time_ns.saturating_sub(LEAD_NS);
        let is_near = |at: i64| due_ns.saturating_sub(at) < EARLY_NS;
        if due_ns <= 0 || self.stage.at().is_some_and(is_near) {
            return self.stage.go_on().map(|()| true);
        }
        Ok(self.stage.nap_until(due_ns)?.is_some())
    }

    /// Sends one sample, which `make` reads into a message, again and again until there is memory
    /// and a place in the queue, or it is too late.
    fn deliver(
        &mut self,
        number: u32,
        time_ns: i64,
        make: impl Fn(&mut Self) -> Result<Made, PlayError>,
    ) -> Result<(), PlayError> {
        let too_late = time_ns.saturating_add(self.stall_ns);
        let is_worth = |stage: &Stage| stage.is_before(too_late);
        while is_worth(self.stage)? {
            if self.attempt(number, is_worth, &make)? != Attempt::Full {
                break;
            }
        }
        Ok(())
    }

    /// Sends one sample, which `make` reads into a message, if there is memory and a place in the
    /// queue.
    fn attempt(
        &mut self,
        number: u32,
        is_worth: impl Fn(&Stage) -> Result<bool, PlayError>,
        make: impl Fn(&mut Self) -> Result<Made, PlayError>,
    ) -> Result<Attempt, PlayError> {
        self.stage.go_on()?;
        self.stage.is_sending();
        match make(self)? {
            Made::Filled(filled) => match self.send(number, filled, is_worth)? {
                true => Ok(Attempt::Sent),
                false => Ok(Attempt::Full),
            },
            Made::NoSlot => {
                std::thread::sleep(LOOK / 10);
                Ok(Attempt::Full)
            }
            Made::Damaged => Ok(Attempt::Damaged),
        }
    }

    /// It is noted before it is sent: its answer may be faster than this thread.
    fn send(
        &mut self,
        number: u32,
        filled: Filled,
        is_worth: impl Fn(&Stage) -> Result<bool, PlayError>,
    ) -> Result<bool, PlayError> {
        let Filled {
            message,
            bytes,
            read_ns,
        } = filled;
        locked(self.sent).push(Sent {
            number,
            read_ns,
            bytes: bytes as u64,
        });
        let stage = self.stage;
        let sent = self.to_decoder.send(message, bytes, &|| is_worth(stage));
        if !matches!(sent, Ok(true)) {
            locked(self.sent).pop();
        }
        sent
    }

    /// What ends the stream.
    fn end(&mut self, tag: UnitTag) -> Result<Made, PlayError> {
        let Some(mut message) = self.to_decoder.lease(TAG_BYTES)? else {
            return Ok(Made::NoSlot);
        };
        message.write(0, &tag.to_word().to_le_bytes());
        Ok(Made::Filled(Filled {
            message,
            bytes: TAG_BYTES,
            read_ns: monotonic_ns(),
        }))
    }

    /// Tag, parameter sets in front of a key frame, NAL units. Damaged: the lengths in front of its
    /// NAL units do not add up.
    fn unit(
        &mut self,
        track: &VideoTrack,
        unit: &PlacedSample,
        tag: UnitTag,
    ) -> Result<Made, PlayError> {
        let sets = if unit.is_key { &track.sets[..] } else { &[] };
        let sets_bytes: usize = sets.iter().map(|set| START_CODE.len() + set.len()).sum();
        let front = TAG_BYTES + sets_bytes;
        let Some(mut message) = self.to_decoder.lease(front + unit.bytes as usize)? else {
            return Ok(Made::NoSlot);
        };
        let read_ns = monotonic_ns();
        message.write(0, &tag.to_word().to_le_bytes());
        let mut at = TAG_BYTES;
        for set in sets {
            message.write(at, &START_CODE);
            message.write(at + START_CODE.len(), set);
            at += START_CODE.len() + set.len();
        }
        self.read(&mut message, unit, front)?;
        let end = front + unit.bytes as usize;
        if !message.in_place(front..end, put_start_codes) {
            return Ok(Made::Damaged);
        }
        Ok(Made::Filled(Filled {
            message,
            bytes: end,
            read_ns,
        }))
    }

    /// Reads a sample to `at` of the payload.
    fn read(
        &self,
        message: &mut Message,
        sample: &PlacedSample,
        at: usize,
    ) -> Result<(), PlayError> {
        let wanted = sample.bytes as usize;
        let mut read = 0;
        while read < wanted {
            let from = sample.offset + read as u64;
            match message.read_file(self.file, from, at + read..at + wanted) {
                Ok(0) => return Err(self.shrank()),
                Ok(got) => read += got,
                Err(source) => return Err(self.unreadable(source)),
            }
        }
        Ok(())
    }

    fn shrank(&self) -> PlayError {
        PlayError::FileShrank {
            path: self.path.to_owned(),
        }
    }

    fn unreadable(&self, source: io::Error) -> PlayError {
        PlayError::File {
            action: "read",
            path: self.path.to_owned(),
            source,
        }
    }
}

/// Puts start codes in the place of lengths; false: the lengths do not add up.
fn put_start_codes(unit: &mut [u8]) -> bool {
    let mut at = 0;
    while at < unit.len() {
        let Some((length, behind)) = unit[at..].split_first_chunk_mut() else {
            return false;
        };
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > behind.len() {
            return false;
        }
        *length = START_CODE;
        at += START_CODE.len() + bytes;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_start_codes_in_place() {
        let mut unit = *b"\0\0\0\x02ab\0\0\0\x01c\0\0\0\0";
        assert!(put_start_codes(&mut unit));
        assert_eq!(unit, *b"\0\0\0\x01ab\0\0\0\x01c\0\0\0\x01");
    }

    #[test]
    fn lengths_that_do_not_add_up_are_damage() {
        for unit in [
            &b"\0\0\0\x03ab"[..],
            b"\xff\xff\xff\xffab",
            b"\0\0\0\x01a\0\0",
        ] {
            assert!(!put_start_codes(&mut unit.to_vec()), "{unit:?}");
        }
    }
}
