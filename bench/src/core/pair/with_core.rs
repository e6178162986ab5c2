//! A task of the core in the place of one of the processes. It is called for each message, and
//! answers when it has written or read it; meanwhile this side reads or writes another one.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use hythe_node::rpc::Caller;
use hythe_node::{Client, ClientOptions, NodeError, PendingReply};
use hythe_rtcore::segment::{Access, Attached, Segments};

use super::super::board::Running;
use super::super::case::System;
use super::Run;
use super::ground::CREATE;
use super::meeting::PLACES;
use super::payload::{PIECE, Payload, is_piece, produce};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};

/// Methods of `p1` (`rtos/apps/p1/README.md`).
const ATTACH: u32 = 21;
const DETACH: u32 = 22;
const PRODUCE: u32 = 50;
const CONSUME: u32 = 51;
/// With which [`CONSUME`] fails: a byte is another.
const DAMAGED: i32 = 4;
/// Longer than a core takes on a busy machine.
const CALL_BOUND: Duration = Duration::from_secs(10);

/// Which of the two the core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    CoreWrites,
    CoreReads,
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::CoreWrites => "core-writes",
            Self::CoreReads => "core-reads",
        })
    }
}

/// One round.
pub(super) fn measure(
    run: &Run,
    direction: Direction,
    (running, lookout): (&Running, &Lookout),
) -> Result<Histogram<u64>, BenchError> {
    let mut meeting = Meeting::make(run, direction, running)?;
    let times = run.time(|number| meeting.step(number, lookout))?;
    meeting.end(lookout)?;
    Ok(times)
}

/// A segment that both have attached, and the call that the core is at.
struct Meeting {
    segment: Attached,
    client: Client,
    /// Of the core's attachment.
    place: u32,
    pending: Option<(PendingReply, u64)>,
    direction: Direction,
    size: usize,
    payload: Payload,
    piece: Vec<u8>,
}

impl Meeting {
    fn make(run: &Run, direction: Direction, running: &Running) -> Result<Self, BenchError> {
        let bytes = run.size * PLACES as usize;
        let segments = Segments::open(running.pool(), None).map_err(refused)?;
        let made = segments.get(0, bytes, CREATE | 0o600).map_err(refused)?;
        let segment = segments
            .attach(made, Access::Write, None)
            .map_err(refused)?;
        let node = running.node(System::Hythe);
        let mut client = node.client("core/calls", &ClientOptions::default())?;
        let words = [made.cast_unsigned(), 0].map(u32::to_le_bytes);
        let mut caller = Caller::new(&mut client);
        let attached = caller
            .call(ATTACH, words.as_flattened(), CALL_BOUND)?
            .to_vec();
        segments.remove(made).map_err(refused)?;
        let word = |index: usize| -> Option<u32> {
            let word = attached.get(4 * index..4 * index + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        let (Some(0), Some(place)) = (word(0), word(1)) else {
            return Err(refused(format!("the core does not attach: {attached:?}")));
        };
        Ok(Self {
            segment,
            client,
            place,
            pending: None,
            direction,
            size: run.size,
            payload: run.payload,
            piece: vec![0; PIECE.min(run.size)],
        })
    }

    /// Message `number` passes from one to the other, while the core is at the next or at the one
    /// before.
    fn step(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        match self.direction {
            Direction::CoreWrites => {
                if self.pending.is_none() {
                    self.begin(PRODUCE, number)?;
                }
                self.finish(lookout)?;
                self.begin(PRODUCE, number + 1)?;
                self.read(number)
            }
            Direction::CoreReads => {
                self.write(number);
                self.finish(lookout)?;
                self.begin(CONSUME, number)
            }
        }
    }

    fn begin(&mut self, method: u32, number: u64) -> Result<(), BenchError> {
        let computed = u32::from(self.payload == Payload::Computed);
        let words = [
            self.place,
            self.at(number) as u32,
            self.size as u32,
            self.piece.len() as u32,
            number as u32,
            (number >> 32) as u32,
            computed,
        ];
        let words = words.map(u32::to_le_bytes);
        let mut caller = Caller::new(&mut self.client);
        let pending = caller.begin(method, words.as_flattened(), CALL_BOUND)?;
        self.pending = Some((pending, number));
        Ok(())
    }

    /// The core has done what it was called for.
    fn finish(&mut self, lookout: &Lookout) -> Result<(), BenchError> {
        let Some((pending, number)) = self.pending.take() else {
            return Ok(());
        };
        let mut caller = Caller::new(&mut self.client);
        let mut bounded_wait = BoundedWait::new(lookout);
        loop {
            match caller.wait(pending, NAP) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => bounded_wait.look_up()?,
                Err(NodeError::MethodFailed {
                    number: DAMAGED, ..
                }) => return Err(BenchError::Damaged { number }),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn write(&mut self, number: u64) {
        let piece = self.piece.len();
        for at in (0..self.size).step_by(piece) {
            produce(self.payload, &mut self.piece, (number, (at / piece) as u64));
            self.segment.write(self.at(number) + at, &self.piece);
        }
    }

    fn read(&mut self, number: u64) -> Result<(), BenchError> {
        let piece = self.piece.len();
        for at in (0..self.size).step_by(piece) {
            self.segment.read(self.at(number) + at, &mut self.piece);
            if !is_piece(self.payload, &self.piece, (number, (at / piece) as u64)) {
                return Err(BenchError::Damaged { number });
            }
        }
        Ok(())
    }

    const fn at(&self, number: u64) -> usize {
        (number % PLACES) as usize * self.size
    }

    /// The core has nothing of the segment any more.
    fn end(mut self, lookout: &Lookout) -> Result<(), BenchError> {
        self.finish(lookout)?;
        let mut caller = Caller::new(&mut self.client);
        caller.call(DETACH, &self.place.to_le_bytes(), CALL_BOUND)?;
        Ok(())
    }
}

fn refused(error: impl fmt::Display) -> BenchError {
    BenchError::Unable(error.to_string())
}
