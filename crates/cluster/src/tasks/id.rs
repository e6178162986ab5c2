//! What names a task: the job that it belongs to, and its number in the job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bits of the number of a task in its job.
const INDEX_BITS: u32 = 9;
/// The most tasks of a job, those that were spawned and have ended included.
pub(super) const TASKS_MAX: u32 = 1 << INDEX_BITS;
const JOB_BITS: u32 = 9;
/// The greatest number of a job; the least is 1.
pub(super) const JOB_MAX: u32 = (1 << JOB_BITS) - 1;
/// The greatest number of a host of a realm; 0: it has none.
pub const HOST_MAX: u32 = (1 << 12) - 1;

/// A job of a pool, written `JOB`, or `HOST.JOB` where its host has a number in a realm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub(crate) struct JobId(u32);

impl JobId {
    /// `None`: out of range.
    pub(crate) const fn new(host: u32, job: u32) -> Option<Self> {
        match host <= HOST_MAX && job > 0 && job <= JOB_MAX {
            true => Some(Self(host << JOB_BITS | job)),
            false => None,
        }
    }

    /// `None`: there can be none.
    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        Self::new(number >> JOB_BITS, number & JOB_MAX)
    }

    /// As one number, of 21 bits.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The number of its host; 0: it has none.
    pub(crate) const fn host(self) -> u32 {
        self.0 >> JOB_BITS
    }

    /// Its number on its host.
    pub(crate) const fn job(self) -> u32 {
        self.0 & JOB_MAX
    }

    /// A task of it; `None`: there are not so many.
    pub(crate) const fn task(self, index: u32) -> Option<TaskId> {
        match index < TASKS_MAX {
            true => Some(TaskId(self.0 << INDEX_BITS | index)),
            false => None,
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host() {
            0 => write!(formatter, "{}", self.job()),
            host => write!(formatter, "{host}.{}", self.job()),
        }
    }
}

impl FromStr for JobId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (host, job) = text.split_once('.').unwrap_or(("0", text));
        let id = decimal(host).zip(decimal(job));
        id.and_then(|(host, job)| Self::new(host, job)).ok_or(())
    }
}

impl TryFrom<u32> for JobId {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        Self::from_number(number).ok_or_else(|| format!("{number} is no job"))
    }
}

impl From<JobId> for u32 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

/// Is it the channel of a task whose job has no number of a host? Such jobs stay on theirs: one of
/// another host may have the same number.
pub(crate) fn stays_on_its_host(channel: &str) -> bool {
    let task: Option<TaskId> = channel.strip_prefix("task/").and_then(|id| id.parse().ok());
    task.is_some_and(|task| task.host() == 0)
}

/// Digits and nothing else.
fn decimal(digits: &str) -> Option<u32> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}

/// A task of a pool, written `JOB.INDEX`, or `HOST.JOB.INDEX` where the host of its job has a
/// number in a realm. It fits into 30 bits, 18 of them without the host, is never 0, and is used
/// again only after all other numbers of jobs were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(u32);

/// A text or number that names no task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no task: a task is JOB.INDEX or HOST.JOB.INDEX, with a job of 1 to {JOB_MAX} and an index below {TASKS_MAX}",
    hythe_terminal::escaped(.0)
)]
pub struct BadTaskId(String);

impl TaskId {
    /// Its job, with the number of its host.
    pub(crate) const fn job_id(self) -> JobId {
        JobId(self.0 >> INDEX_BITS)
    }

    /// The number of the host on which its job was begun, in the realm; 0: that has none. The task
    /// may run elsewhere.
    #[must_use]
    pub const fn host(self) -> u32 {
        self.job_id().host()
    }

    /// Number of the job on its host.
    #[must_use]
    pub const fn job(self) -> u32 {
        self.job_id().job()
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
        match JobId::from_number(number >> INDEX_BITS) {
            Some(job) => job.task(number & (TASKS_MAX - 1)),
            None => None,
        }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.job_id(), self.index())
    }
}

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        let parsed = text.rsplit_once('.').and_then(|(job, index)| {
            let job: JobId = job.parse().ok()?;
            job.task(decimal(index)?)
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
        for (host, job, index) in [
            (0, 1, 0),
            (0, JOB_MAX, TASKS_MAX - 1),
            (0, 7, 3),
            (1, 1, 0),
            (HOST_MAX, JOB_MAX, TASKS_MAX - 1),
        ] {
            let job_id = JobId::new(host, job).expect("in range");
            assert_eq!(job_id.to_string().parse(), Ok(job_id));
            assert_eq!(JobId::from_number(job_id.number()), Some(job_id));
            let id = job_id.task(index).expect("in range");
            assert_eq!((id.host(), id.job(), id.index()), (host, job, index));
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
            "1.2.3.4",
            "4096.1.0",
            "1.0.3",
            "a.b",
            "99999999999.0",
        ] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad}");
        }
        assert!(stays_on_its_host("task/1.0"));
        assert!(!stays_on_its_host("task/2.1.0") && !stays_on_its_host("tasks"));
        assert_eq!(TaskId::from_number(0), None);
        assert_eq!(TaskId::from_number(u32::MAX), None);
    }
}
