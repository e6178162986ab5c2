//! What is measured: a system, a way of waiting, a pattern of payload.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// A plain ring of descriptors in shared memory: what no system with more duties can beat.
    Floor,
    /// Channels of a pool.
    Hythe,
    /// A Unix stream socket: the payload is copied in and out.
    Unix,
    /// Two pipes: the payload is copied in and out.
    Pipe,
}

/// How a side waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Looks again and again.
    Poll,
    /// Sleeps in the kernel.
    Block,
    /// Looks for a while, then sleeps: the default of hythe's `take`.
    Adaptive,
}

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// There and back; written once before the run, then only handed on.
    Untouched,
    /// There and back; written by each sender and read by each receiver every time.
    Filled,
    /// One way, one message per call, written and read every time: a rate.
    Single,
}

/// One case: `system/wait/pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) system: System,
    pub(crate) wait: Wait,
    pub(crate) pattern: Pattern,
}

/// Systems that are compared stand next to each other: what disturbs one of them disturbs the other.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for pattern in [Pattern::Untouched, Pattern::Filled, Pattern::Single] {
        for wait in [Wait::Poll, Wait::Block, Wait::Adaptive] {
            for system in [System::Floor, System::Hythe, System::Unix, System::Pipe] {
                let case = Case {
                    system,
                    wait,
                    pattern,
                };
                if case.makes_sense() {
                    cases.push(case);
                }
            }
        }
    }
    cases
}

impl Case {
    const fn makes_sense(self) -> bool {
        match (self.system, self.wait, self.pattern) {
            (_, Wait::Poll, Pattern::Single) => {
                matches!(self.system, System::Floor | System::Hythe)
            }
            (_, _, Pattern::Single) => false,
            // Only hythe has a mixed way of waiting.
            (System::Floor | System::Unix | System::Pipe, Wait::Adaptive, _) => false,
            // What copies touches the payload.
            (System::Unix | System::Pipe, _, Pattern::Untouched) => false,
            _ => true,
        }
    }

    /// Does a side keep its CPU busy while it waits?
    pub(super) const fn spins(self) -> bool {
        matches!(self.wait, Wait::Poll)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, wait, pattern) = (self.system, self.wait, self.pattern);
        write!(out, "{}/{}/{}", word(system), word(wait), word(pattern))
    }
}

/// The word for it on the command line, in cases and in ratios.
pub(super) fn word(value: impl ValueEnum) -> String {
    let word = value.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('/');
        let mut next = || words.next().unwrap_or_default();
        let case = Self {
            system: System::from_str(next(), false)?,
            wait: Wait::from_str(next(), false)?,
            pattern: Pattern::from_str(next(), false)?,
        };
        match words.next() {
            None => Ok(case),
            Some(more) => Err(format!("`{more}` is too much")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_survives_being_written() {
        for case in all() {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert!("floor/poll".parse::<Case>().is_err());
        assert!("floor/poll/filled/more".parse::<Case>().is_err());
    }

    #[test]
    fn what_copies_is_never_untouched() {
        let names: Vec<String> = all().iter().map(Case::to_string).collect();
        assert!(names.contains(&"floor/poll/untouched".to_owned()));
        assert!(names.contains(&"hythe/adaptive/filled".to_owned()));
        assert!(names.contains(&"pipe/block/filled".to_owned()));
        assert!(!names.contains(&"unix/poll/untouched".to_owned()));
        assert!(!names.contains(&"floor/block/single".to_owned()));
    }
}
