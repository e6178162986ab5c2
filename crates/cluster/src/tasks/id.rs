//! What names a task: the job that it belongs to, and its number in the job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bits of the number of a task in its job.
const INDEX_BITS: u32 = 9;
/// The most tasks of a job, those that were spawned and have ended included.
pub(super) const TASKS_MAX: u32 = 1 << INDEX_BITS;
/// The greatest number of a job; the least is 1.
pub(super) const JOB_MAX: u32 = (1 << 9) - 1;

/// A task of a pool, written `JOB.INDEX`. It fits into 18 bits, is never 0, and is used again only
/// after all other numbers of jobs were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(u32);

/// A text or number that names no task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no task: a task is JOB.INDEX, with a job of 1 to {JOB_MAX} and an index below {TASKS_MAX}",
    hythe_terminal::escaped(.0)
)]
pub struct BadTaskId(String);

impl TaskId {
    /// `None`: out of range.
    pub(super) const fn new(job: u32, index: u32) -> Option<Self> {
        match job > 0 && job <= JOB_MAX && index < TASKS_MAX {
            true => Some(Self(job << INDEX_BITS | index)),
            false => None,
        }
    }

    /// Number of the job.
    #[must_use]
    pub const fn job(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    /// Number in the job: the rank, for the tasks that it began with.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & (TASKS_MAX - 1)
    }

    /// As one number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The task with this number; `None`: there can be none.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Self::new(number >> INDEX_BITS, number & (TASKS_MAX - 1))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.job(), self.index())
    }
}

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        let number = |digits: &str| {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| digits.parse().ok()).flatten()
        };
        let parsed = text.split_once('.').and_then(|(job, index)| {
            let (job, index) = (number(job)?, number(index)?);
            Self::new(job, index)
        });
        parsed.ok_or_else(|| BadTaskId(text.to_owned()))
    }
}

impl TryFrom<String> for TaskId {
    type Error = BadTaskId;

    fn try_from(text: String) -> Result<Self, BadTaskId> {
        text.parse()
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for id in [
            TaskId::new(1, 0),
            TaskId::new(JOB_MAX, TASKS_MAX - 1),
            TaskId::new(7, 3),
        ] {
            let id = id.expect("in range");
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(TaskId::from_number(id.number()), Some(id));
        }
        for bad in [
            "",
            "1",
            "0.1",
            "1.512",
            "512.0",
            "1.+1",
            "1.2.3",
            "a.b",
            "99999999999.0",
        ] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad}");
        }
        assert_eq!(TaskId::from_number(0), None);
        assert_eq!(TaskId::from_number(u32::MAX), None);
    }
}
