//! One end of a service between two processes.

use std::fmt;

use super::case::Case;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// One end. Numbers count the messages of each direction; they decide the content.
pub(super) trait End: fmt::Debug {
    /// Sends message `number`, or what stands for it.
    fn send(&mut self, number: u64) -> Result<(), BenchError>;

    /// Waits for message `number` and reads it.
    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError>;

    /// Nothing comes any more.
    fn finish(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
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

/// Of a case that has none.
pub(super) fn no_end(case: Case) -> BenchError {
    BenchError::WrongUse(format!("`{case}` is nothing between two processes"))
}
