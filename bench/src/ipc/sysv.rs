//! System V shared memory with a semaphore each way, as old programs use it: the payload is copied
//! into the segment and out of it.

use std::fmt;
use std::str::FromStr;

use super::case::Case;
use super::end::End;
use super::side::Side;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};
use crate::system_v::{Segment, Semaphores};

/// Before each payload: how long it is. In a line of its own.
const LENGTH_BYTES: usize = 64;

/// What both sides share; a place for one message each way.
#[derive(Debug)]
pub(super) struct Meeting {
    segment: Segment,
    semaphores: Semaphores,
}

/// How the other process finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    segment: i32,
    semaphores: i32,
}

impl Meeting {
    pub(super) fn make(size: usize) -> Result<Self, BenchError> {
        Ok(Self {
            segment: Segment::create(2 * place_bytes(size))?,
            semaphores: Semaphores::create(2)?,
        })
    }

    pub(super) fn attach(numbers: Numbers) -> Result<Self, BenchError> {
        Ok(Self {
            segment: Segment::attach(numbers.segment)?,
            semaphores: Semaphores::open(numbers.semaphores),
        })
    }

    pub(super) const fn numbers(&self) -> Numbers {
        Numbers {
            segment: self.segment.id(),
            semaphores: self.semaphores.id(),
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.segment, self.semaphores)
    }
}

impl FromStr for Numbers {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let parsed = text.split_once(':').and_then(|(segment, semaphores)| {
            Some((segment.parse().ok()?, semaphores.parse().ok()?))
        });
        let (segment, semaphores) = parsed
            .ok_or_else(|| BenchError::WrongUse(format!("`{text}` is not SEGMENT:SEMAPHORES")))?;
        Ok(Self {
            segment,
            semaphores,
        })
    }
}

const fn place_bytes(size: usize) -> usize {
    LENGTH_BYTES + size.next_multiple_of(LENGTH_BYTES)
}

/// One end. The semaphore of a side's number says that its place is full.
#[derive(Debug)]
pub(super) struct SysvEnd {
    meeting: Meeting,
    side: Side,
    buffer: Vec<u8>,
    lookout: Lookout,
}

impl SysvEnd {
    /// `case` always blocks and fills: nothing else makes sense here.
    pub(super) fn new(
        meeting: Meeting,
        side: Side,
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Self {
        debug_assert!(!case.spins(), "{case}");
        Self {
            meeting,
            side,
            buffer: vec![0; size],
            lookout,
        }
    }

    fn place(&self, side: Side) -> usize {
        side as usize * place_bytes(self.buffer.len())
    }

    fn post(&self, length: usize) -> Result<(), BenchError> {
        let segment = &self.meeting.segment;
        segment.copy_in(self.place(self.side), &length.to_le_bytes());
        Ok(self.meeting.semaphores.post(self.side as u16)?)
    }
}

impl End for SysvEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        let at = self.place(self.side) + LENGTH_BYTES;
        self.meeting.segment.copy_in(at, &self.buffer);
        self.post(self.buffer.len())
    }

    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        let from = self.side.other();
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        while !self.meeting.semaphores.take(from as u16, NAP)? {
            bounded_wait.look_up()?;
        }
        let mut length = [0; size_of::<usize>()];
        self.meeting.segment.copy_out(self.place(from), &mut length);
        if usize::from_le_bytes(length) == 0 {
            return Ok(false);
        }
        let at = self.place(from) + LENGTH_BYTES;
        self.meeting.segment.copy_out(at, &mut self.buffer);
        if is_message(&self.buffer, number) {
            return Ok(true);
        }
        Err(BenchError::Damaged { number })
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.post(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(size: usize) -> [SysvEnd; 2] {
        let case = Case::named("sysv/block/filled");
        let here = Meeting::make(size).expect("made");
        let numbers = here.numbers().to_string().parse().expect("as written");
        let there = Meeting::attach(numbers).expect("attached");
        let end = |meeting, side| SysvEnd::new(meeting, side, case, size, Lookout::default());
        [end(here, Side::Near), end(there, Side::Far)]
    }

    #[test]
    fn each_way_has_a_place_of_its_own() {
        let [mut near, mut far] = ends(72);
        near.send(1).expect("sent");
        far.send(2).expect("sent");
        assert!(far.receive(1).expect("as sent"));
        assert!(near.receive(2).expect("as sent"));
        near.finish().expect("told");
        assert!(!far.receive(2).expect("finished"));
    }

    #[test]
    fn another_message_is_noticed() {
        let [mut near, mut far] = ends(8);
        near.send(1).expect("sent");
        let damaged = far.receive(2);
        assert!(matches!(damaged, Err(BenchError::Damaged { number: 2 })));
    }

    #[test]
    fn odd_numbers_are_refused() {
        for text in ["", "7", "7:", "a:b"] {
            assert!(text.parse::<Numbers>().is_err(), "{text}");
        }
    }
}
