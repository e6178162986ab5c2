//! Which end is whose.

use super::case::{Case, System};
use super::end::{End, Side, no_end};
use super::futex::FutexEnd;
use super::ours;
use super::posix::PosixEnd;
use crate::error::BenchError;

/// Opens an end. The near one is opened first.
pub(super) fn open(case: Case, side: Side, place: &str) -> Result<Box<dyn End>, BenchError> {
    Ok(match case.system {
        System::Futex => Box::new(FutexEnd::open(case, side, place)?),
        System::Mq => Box::new(PosixEnd::open(case, side, place)?),
        System::Hythe => ours::open(case, side, place)?,
        System::Core | System::Shmget => return Err(no_end(case)),
    })
}
