//! At which priority reads stand in the queue of the device.
//!
//! Never decides it: the command's user does.

use std::fmt;
use std::io;
use std::str::FromStr;

use hythe_sys::io_priority::{IoClass, set_io_priority};

/// Class and level of reads. Levels are 0, first, to 7, last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Only while nobody else reads or writes.
    Idle,
    /// As everybody, at a level.
    BestEffort(u8),
    /// Before everybody else, at a level. Needs `CAP_SYS_NICE` or `CAP_SYS_ADMIN`.
    Realtime(u8),
}

/// The level that a thread has when nobody set one.
const USUAL_LEVEL: u8 = 4;
const LAST_LEVEL: u8 = 7;

impl Priority {
    /// Gives it to the calling thread.
    pub(super) fn enter(self) -> io::Result<()> {
        match self {
            Self::Idle => set_io_priority(IoClass::Idle, 0),
            Self::BestEffort(level) => set_io_priority(IoClass::BestEffort, level),
            Self::Realtime(level) => set_io_priority(IoClass::Realtime, level),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::BestEffort(level) => write!(f, "best-effort:{level}"),
            Self::Realtime(level) => write!(f, "realtime:{level}"),
        }
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (class, level) = match text.split_once(':') {
            Some((class, level)) => (class, level.parse().ok()),
            None => (text, Some(USUAL_LEVEL)),
        };
        let level = level.filter(|level| *level <= LAST_LEVEL);
        match (class, level) {
            ("idle", _) if !text.contains(':') => Ok(Self::Idle),
            ("best-effort", Some(level)) => Ok(Self::BestEffort(level)),
            ("realtime", Some(level)) => Ok(Self::Realtime(level)),
            _ => Err(
                "a priority is idle, best-effort:N or realtime:N, N from 0, first, to 7, last"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read_as_they_are_shown() {
        for priority in [
            Priority::Idle,
            Priority::BestEffort(0),
            Priority::Realtime(7),
        ] {
            assert_eq!(priority.to_string().parse(), Ok(priority));
        }
        assert_eq!("best-effort".parse(), Ok(Priority::BestEffort(4)));
        for wrong in ["", "idle:3", "best-effort:8", "realtime:", "fast"] {
            assert!(wrong.parse::<Priority>().is_err(), "{wrong}");
        }
    }
}
