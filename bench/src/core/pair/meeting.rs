//! What the two processes share: a segment with two places, and two semaphores that count which of
//! them are empty and which are full.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

use super::super::case::word;
use super::payload::{PIECE, Payload, is_piece, produce};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::system_v::{Segment, Semaphores};

/// Messages that the segment has space for: one is written while the one before it is read.
const PLACES: u64 = 2;

/// Whose segment and semaphores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// The kernel's own: `shmget`, `semtimedop`.
    Sysv,
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&word(*self))
    }
}

/// Which count.
#[derive(Clone, Copy, Debug)]
enum Count {
    Empty = 0,
    Full = 1,
}

/// How the other process finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    segment: i32,
    semaphores: i32,
}

/// Segment and semaphores, attached.
#[derive(Debug)]
pub(super) struct Meeting {
    segment: Segment,
    semaphores: Semaphores,
    size: usize,
    payload: Payload,
    piece: Vec<u8>,
}

impl Meeting {
    /// Makes it, with both places empty.
    pub(super) fn make(size: usize, payload: Payload) -> Result<Self, BenchError> {
        let segment = Segment::create(size * PLACES as usize)?;
        let made = Self::with(segment, Semaphores::create(2)?, (size, payload));
        // Page faults have rows of their own.
        made.segment.copy_in(0, &vec![0; size * PLACES as usize]);
        for _ in 0..PLACES {
            made.semaphores.post(Count::Empty as u16)?;
        }
        Ok(made)
    }

    /// What another process has made.
    pub(super) fn attach(
        numbers: Numbers,
        size: usize,
        payload: Payload,
    ) -> Result<Self, BenchError> {
        let segment = Segment::attach(numbers.segment)?;
        let semaphores = Semaphores::open(numbers.semaphores);
        Ok(Self::with(segment, semaphores, (size, payload)))
    }

    fn with(segment: Segment, semaphores: Semaphores, of: (usize, Payload)) -> Self {
        let (size, payload) = of;
        Self {
            segment,
            semaphores,
            size,
            payload,
            piece: vec![0; PIECE.min(size)],
        }
    }

    pub(super) const fn numbers(&self) -> Numbers {
        Numbers {
            segment: self.segment.id(),
            semaphores: self.semaphores.id(),
        }
    }

    /// Waits for an empty place and fills it with message `number`.
    pub(super) fn write(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        self.wait(Count::Empty, lookout)?;
        let piece = self.piece.len();
        for at in (0..self.size).step_by(piece) {
            produce(self.payload, &mut self.piece, (number, (at / piece) as u64));
            self.segment.copy_in(self.place(number) + at, &self.piece);
        }
        Ok(self.semaphores.post(Count::Full as u16)?)
    }

    /// Waits for a full place, reads message `number` and checks each byte.
    pub(super) fn read(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        self.wait(Count::Full, lookout)?;
        let piece = self.piece.len();
        for at in (0..self.size).step_by(piece) {
            let place = self.place(number) + at;
            self.segment.copy_out(place, &mut self.piece);
            if !is_piece(self.payload, &self.piece, (number, (at / piece) as u64)) {
                return Err(BenchError::Damaged { number });
            }
        }
        Ok(self.semaphores.post(Count::Empty as u16)?)
    }

    const fn place(&self, number: u64) -> usize {
        (number % PLACES) as usize * self.size
    }

    fn wait(&self, count: Count, lookout: &Lookout) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(lookout);
        while !self.semaphores.take(count as u16, NAP)? {
            bounded_wait.look_up()?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_what_the_other_reads_and_waits_for_space() {
        let lookout = Lookout::default();
        for (size, payload) in [(64, Payload::Stored), (3 * PIECE, Payload::Computed)] {
            let mut here = Meeting::make(size, payload).expect("made");
            let numbers = here.numbers();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut there = Meeting::attach(numbers, size, payload).expect("attached");
                    for number in 0..50 {
                        there.write(number, &lookout).expect("written");
                    }
                });
                for number in 0..50 {
                    here.read(number, &lookout).expect("as written");
                }
            });
        }
    }
}
