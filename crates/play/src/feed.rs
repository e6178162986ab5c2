//! The way to the core: reads each sample of the movie straight into a slot, and publishes it.
//!
//! A sample goes to the core [`LEAD_NS`] before its time, which hides what decoding takes and
//! bounds what is decoded ahead. A frame of sound that cannot be sent in time is dropped and
//! counted. Units of pictures go in the order of [`UnitOrder`](crate::order::UnitOrder).

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use hythe::media::source::mp4::movie::{AudioTrack, PlacedSample, VideoTrack};
use hythe::{Lease, NodeError, Publisher, TrustPeers, monotonic_ns};

use crate::error::PlayError;
use crate::method::{Method, write_fragments};
use crate::order::UnitOrder;
use crate::ports::{TAG_BYTES, UnitTag};
use crate::report::Sent;
use crate::stage::{LOOK, Stage, locked};

/// How long before its time a sample goes to the core.
const LEAD_NS: i64 = 200_000_000;
/// In front of each NAL unit; as long as the length that it takes the place of.
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// A slot that a sample was read into.
struct Filled {
    lease: Lease,
    bytes: usize,
    /// When reading it began.
    read_ns: u64,
}

/// What came of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Sent,
    /// There is no slot, or no place in the queue.
    Full,
    /// It cannot be sent.
    Damaged,
}

/// What both ways to the core need.
#[derive(Debug)]
pub(crate) struct Feeder<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) to_core: Publisher,
    pub(crate) method: Method,
    /// A sample that is later than this is not sent any more.
    pub(crate) stall_ns: i64,
    /// What was sent, in order.
    pub(crate) sent: &'a Mutex<Vec<Sent>>,
}

impl Feeder<'_> {
    /// Sends all frames of sound.
    pub(crate) fn feed_sound(mut self, track: &AudioTrack) -> Result<(), PlayError> {
        for (number, frame) in track.frames.iter().enumerate() {
            self.stage_before(frame)?;
            self.deliver(number as u32, frame.time_ns, |feeder| {
                let bytes = frame.bytes as usize;
                let mut lease = feeder.to_core.lease(bytes)?;
                let read_ns = monotonic_ns();
                feeder.read(&mut lease, frame, 0)?;
                Ok(Some(Filled {
                    lease,
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
        let end_ns = track.units.last().map_or(0, PlacedSample::end_ns);
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
            let made = |feeder: &Self| match unit {
                Some(unit) => feeder.unit(track, unit, tag),
                None => feeder.end(tag).map(Some),
            };
            match self.attempt(tag.number, made)? {
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
        if due_ns <= 0 {
            return Ok(true);
        }
        Ok(self.stage.nap_until(due_ns)?.is_some())
    }

    fn stage_before(&self, sample: &PlacedSample) -> Result<(), PlayError> {
        let due = sample.time_ns.saturating_sub(LEAD_NS);
        match due <= 0 {
            true => self.stage.go_on(),
            false => self.stage.wait_until(due).map(drop),
        }
    }

    /// Sends one sample, which `make` reads into a slot, again and again until there is a slot and
    /// a place in the queue, or it is too late.
    fn deliver(
        &mut self,
        number: u32,
        time_ns: i64,
        make: impl Fn(&Self) -> Result<Option<Filled>, PlayError>,
    ) -> Result<(), PlayError> {
        let too_late = time_ns.saturating_add(self.stall_ns);
        while self.stage.at().is_none_or(|at| at < too_late) {
            if self.attempt(number, &make)? != Attempt::Full {
                break;
            }
        }
        Ok(())
    }

    /// Sends one sample, which `make` reads into a slot, if there is a slot and a place in the
    /// queue.
    fn attempt(
        &mut self,
        number: u32,
        make: impl Fn(&Self) -> Result<Option<Filled>, PlayError>,
    ) -> Result<Attempt, PlayError> {
        self.stage.go_on()?;
        self.stage.is_sending();
        let refusal = match make(self) {
            Ok(Some(filled)) => match self.publish(number, filled) {
                Ok(()) => return Ok(Attempt::Sent),
                Err(refusal) => refusal,
            },
            Ok(None) => return Ok(Attempt::Damaged),
            Err(PlayError::Node(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        if refusal.is_pool_full() {
            std::thread::sleep(LOOK / 10);
        } else if !matches!(refusal, NodeError::CoreFull { .. }) {
            return Err(refusal.into());
        }
        Ok(Attempt::Full)
    }

    /// It is noted before it is sent: its answer may be faster than this thread.
    fn publish(&mut self, number: u32, filled: Filled) -> Result<(), NodeError> {
        let Filled {
            lease,
            bytes,
            read_ns,
        } = filled;
        locked(self.sent).push(Sent {
            number,
            read_ns,
            bytes: bytes as u64,
        });
        let published = self.to_core.publish(lease, bytes);
        if published.is_err() {
            locked(self.sent).pop();
        }
        published.map(drop)
    }

    /// What ends the stream.
    fn end(&self, tag: UnitTag) -> Result<Filled, PlayError> {
        let mut lease = self.to_core.lease(TAG_BYTES)?;
        lease.write(0, &tag.to_word().to_le_bytes());
        Ok(Filled {
            lease,
            bytes: TAG_BYTES,
            read_ns: monotonic_ns(),
        })
    }

    /// Tag, parameter sets in front of a key frame, NAL units. `None`: the lengths in front of its
    /// NAL units do not add up.
    fn unit(
        &self,
        track: &VideoTrack,
        unit: &PlacedSample,
        tag: UnitTag,
    ) -> Result<Option<Filled>, PlayError> {
        let sets = if unit.is_key { &track.sets[..] } else { &[] };
        let sets_bytes: usize = sets.iter().map(|set| START_CODE.len() + set.len()).sum();
        let front = TAG_BYTES + sets_bytes;
        let mut lease = self.to_core.lease(front + unit.bytes as usize)?;
        let read_ns = monotonic_ns();
        lease.write(0, &tag.to_word().to_le_bytes());
        let mut at = TAG_BYTES;
        for set in sets {
            lease.write(at, &START_CODE);
            lease.write(at + START_CODE.len(), set);
            at += START_CODE.len() + set.len();
        }
        self.read(&mut lease, unit, front)?;
        let end = front + unit.bytes as usize;
        // Nobody else has the slot before it is published.
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        let is_whole = put_start_codes(&mut lease.as_mut_slice(trust)[front..end]);
        Ok(is_whole.then_some(Filled {
            lease,
            bytes: end,
            read_ns,
        }))
    }

    /// Reads a sample to `at` of the payload.
    fn read(&self, lease: &mut Lease, sample: &PlacedSample, at: usize) -> Result<(), PlayError> {
        let wanted = sample.bytes as usize;
        if self.method == Method::Copy {
            let mut own = vec![0; wanted];
            let read = self.file.read_exact_at(&mut own, sample.offset);
            read.map_err(|source| match source.kind() {
                ErrorKind::UnexpectedEof => self.shrank(),
                _ => self.unreadable(source),
            })?;
            write_fragments(lease, at, &own);
            return Ok(());
        }
        let mut read = 0;
        while read < wanted {
            let from = sample.offset + read as u64;
            match lease.read_file(self.file, from, at + read, wanted - read) {
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
