//! What is measured: a service of a system, and how its two sides wait.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

use super::super::case::word;
use crate::error::BenchError;

/// Whose service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// Ours, between two processes.
    Hythe,
    /// Ours, with a core on the other side.
    Core,
    /// The kernel's: two words in shared memory, `FUTEX_WAIT` and `FUTEX_WAKE`.
    Futex,
    /// The kernel's: `mq_send`, `mq_receive`.
    Mq,
    /// The kernel's: `shmget`.
    Shmget,
}

/// How both sides wait for their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// They look for up to 50 us, then sleep.
    Adaptive,
    /// They sleep.
    Block,
}

/// Which service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// The floor: a message of a channel, there and back.
    Ping,
    /// One count, handed over and back.
    Semaphore,
    /// A message of a queue, there and back.
    Message,
    /// A method is called; its result has the size of its argument.
    Call,
    /// A segment is made, attached, written to, removed and detached.
    Segment,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) system: System,
    pub(super) wait: Wait,
    pub(super) service: Service,
    pub(super) size: usize,
}

/// Bytes of a short message, and of one that fills a page.
const SHORT: usize = 64;
const PAGE: usize = 4096;

/// What stands next to each other is compared.
pub(super) fn all() -> Vec<Case> {
    use Service::{Call, Message, Ping, Segment, Semaphore};
    use System::{Core, Futex, Hythe, Mq, Shmget};
    let between = |wait| {
        move |(system, service, size)| Case {
            system,
            wait,
            service,
            size,
        }
    };
    let adaptive = [
        (Hythe, Ping, SHORT),
        (Hythe, Semaphore, 0),
        (Futex, Semaphore, 0),
        (Hythe, Message, SHORT),
        (Hythe, Call, SHORT),
        (Hythe, Ping, PAGE),
        (Hythe, Message, PAGE),
        (Hythe, Call, PAGE),
        (Core, Ping, SHORT),
        (Core, Semaphore, 0),
        (Core, Message, SHORT),
        (Core, Call, SHORT),
        (Core, Ping, PAGE),
        (Core, Message, PAGE),
        (Core, Call, PAGE),
        (Core, Segment, PAGE),
    ];
    let block = [
        (Hythe, Ping, SHORT),
        (Hythe, Semaphore, 0),
        (Futex, Semaphore, 0),
        (Hythe, Message, SHORT),
        (Mq, Message, SHORT),
        (Hythe, Call, SHORT),
        (Hythe, Ping, PAGE),
        (Hythe, Message, PAGE),
        (Mq, Message, PAGE),
        (Hythe, Segment, PAGE),
        (Shmget, Segment, PAGE),
    ];
    let adaptive = adaptive.into_iter().map(between(Wait::Adaptive));
    adaptive
        .chain(block.into_iter().map(between(Wait::Block)))
        .collect()
}

impl Case {
    /// The same of another service: its floor.
    pub(super) const fn with(self, service: Service) -> Self {
        Self { service, ..self }
    }

    /// The same of another system: who is compared with.
    pub(super) const fn of(self, system: System) -> Self {
        Self { system, ..self }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, service) = (word(self.system), word(self.service));
        match self.service {
            // Nobody waits.
            Service::Segment => write!(out, "{system}/{service}"),
            _ => write!(out, "{system}/{}/{service}", word(self.wait)),
        }
    }
}

/// A case without its size.
impl FromStr for Case {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let found = all().into_iter().find(|case| case.to_string() == text);
        found.ok_or_else(|| BenchError::WrongUse(format!("`{text}` is no case")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_floor_or_is_one() {
        let cases = all();
        for &case in &cases {
            assert_eq!(
                case.to_string().parse::<Case>().expect("a case").service,
                case.service
            );
            let is_ours = matches!(case.system, System::Hythe | System::Core);
            if is_ours && !matches!(case.service, Service::Semaphore | Service::Segment) {
                assert!(cases.contains(&case.with(Service::Ping)), "{case}");
            }
        }
    }

    #[test]
    fn odd_cases_are_refused() {
        for text in ["", "hythe", "hythe/block/segment", "mq/adaptive/message"] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }
}
