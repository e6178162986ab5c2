//! What the two processes share: a segment with two places, and two semaphores that count which of
//! them are empty and which are full.

use hythe_node::Pool;

use super::ground::{self, Count, Ground, Kind};
use super::payload::{PIECE, Payload, is_piece, produce};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};

/// Messages that the segment has space for: one is written while the one before it is read.
const PLACES: u64 = 2;

/// Segment and semaphores, attached.
#[derive(Debug)]
pub(super) struct Meeting {
    ground: Box<dyn Ground>,
    size: usize,
    payload: Payload,
    piece: Vec<u8>,
}

impl Meeting {
    /// Makes it, with both places empty.
    pub(super) fn make(
        kind: Kind,
        pool: &Pool,
        (size, payload): (usize, Payload),
    ) -> Result<Self, BenchError> {
        let bytes = size * PLACES as usize;
        let made = Self::on(ground::make(kind, pool, bytes)?, size, payload);
        // Page faults have rows of their own.
        made.ground.copy_in(0, &vec![0; bytes]);
        for _ in 0..PLACES {
            made.ground.post(Count::Empty)?;
        }
        Ok(made)
    }

    /// What another process has made.
    pub(super) fn attach(place: &str, size: usize, payload: Payload) -> Result<Self, BenchError> {
        let attached = Self::on(ground::attach(place)?, size, payload);
        attached
            .ground
            .copy_out(0, &mut vec![0; size * PLACES as usize]);
        Ok(attached)
    }

    fn on(ground: Box<dyn Ground>, size: usize, payload: Payload) -> Self {
        Self {
            ground,
            size,
            payload,
            piece: vec![0; PIECE.min(size)],
        }
    }

    /// The segment's id.
    pub(super) fn segment(&self) -> i32 {
        self.ground.segment()
    }

    pub(super) fn place(&self) -> String {
        self.ground.place()
    }

    /// Waits for an empty place and fills it with message `number`.
    pub(super) fn write(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        self.wait(Count::Empty, lookout)?;
        let piece = self.piece.len();
        for at in (0..self.size).step_by(piece) {
            produce(self.payload, &mut self.piece, (number, (at / piece) as u64));
            self.ground.copy_in(self.at(number) + at, &self.piece);
        }
        self.ground.post(Count::Full)
    }

    /// Waits for a full place, reads message `number` and checks each byte.
    pub(super) fn read(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        self.wait(Count::Full, lookout)?;
        let piece = self.piece.len();
        for at in (0..self.size).step_by(piece) {
            let place = self.at(number) + at;
            self.ground.copy_out(place, &mut self.piece);
            if !is_piece(self.payload, &self.piece, (number, (at / piece) as u64)) {
                return Err(BenchError::Damaged { number });
            }
        }
        self.ground.post(Count::Empty)
    }

    const fn at(&self, number: u64) -> usize {
        (number % PLACES) as usize * self.size
    }

    fn wait(&self, count: Count, lookout: &Lookout) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(lookout);
        while !self.ground.take(count, NAP)? {
            bounded_wait.look_up()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_what_the_other_reads_and_waits_for_space() {
        let lookout = Lookout::default();
        let pool = hythe_node::Pool::create_private(&hythe_node::PoolOptions::new("pair"));
        let pool = pool.expect("a pool");
        for (size, payload) in [(64, Payload::Stored), (3 * PIECE, Payload::Computed)] {
            let mut here = Meeting::make(Kind::Sysv, &pool, (size, payload)).expect("made");
            let place = here.place();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut there = Meeting::attach(&place, size, payload).expect("attached");
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
