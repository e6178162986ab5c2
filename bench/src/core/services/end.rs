//! One end of a service between two processes, and how it is opened.

use std::fmt;

use super::case::{Case, System};
use super::futex::FutexEnd;
use super::ours;
use super::posix::PosixEnd;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// One end. Numbers count the messages of each direction; they decide the content.
pub(super) trait End: fmt::Debug {
    /// Sends message `number`, or what stands for it.
    fn send(&mut self, number: u64) -> Result<(), BenchError>;

    /// Waits for message `number` and reads it.
    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError>;
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// This process: it measures.
    Near,
    /// The other one: it answers.
    Far,
}

impl Side {
    /// What is sent by this side, of two things; then what is received.
    pub(super) fn order<T>(self, [there, back]: [T; 2]) -> [T; 2] {
        match self {
            Self::Near => [there, back],
            Self::Far => [back, there],
        }
    }
}

/// Opens an end. The near one is opened first.
pub(super) fn open(case: Case, side: Side, place: &str) -> Result<Box<dyn End>, BenchError> {
    Ok(match case.system {
        System::Futex => Box::new(FutexEnd::open(case, side, place)?),
        System::Mq => Box::new(PosixEnd::open(case, side, place)?),
        System::Hythe => ours::open(case, side, place)?,
        System::Core | System::Shmget => return Err(no_end(case)),
    })
}

pub(super) fn no_end(case: Case) -> BenchError {
    BenchError::WrongUse(format!("`{case}` is nothing between two processes"))
}
