//! What is measured: a system, a way of waiting, a pattern of payload.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// A plain ring of descriptors in shared memory: what no system with more duties can beat.
    Floor,
    /// The stores of hythe's protocol over such a ring, without checks, locks and recovery.
    Protocol,
    /// Channels of a pool.
    Hythe,
    /// iceoryx2: publish/subscribe, and a `WaitSet` to sleep in.
    Iceoryx2,
    /// A Unix stream socket: the payload is copied in and out.
    Unix,
    /// Two pipes: the payload is copied in and out.
    Pipe,
    /// A System V segment and semaphores: the payload is copied in and out.
    Sysv,
    /// Open MPI, by its shared memory: the payload is copied.
    Openmpi,
    /// MPICH, by its shared memory: the payload is copied.
    Mpich,
    /// iceoryx, the C++ library.
    Iceoryx,
    /// Cyclone DDS with shared memory, which is iceoryx'.
    Cyclonedds,
    /// Aeron IPC, from Java: the payload is written to a log, and copied where it is large.
    Aeron,
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
    /// There and back; written once before the run, then only forwarded.
    Untouched,
    /// There and back; written by each sender and read by each receiver every time.
    Filled,
    /// There and back as a request and its reply; written once before the run, then only forwarded.
    Request,
    /// One way, one message per call, written and read every time: a rate.
    Single,
    /// One way, several messages per call, written and read every time: a rate.
    Batched,
    /// One way to several subscribers of the other process: what one publishing costs.
    Fan,
    /// One way, large messages, written and read, to a reader that is slower: a rate with 4 of them
    /// in the queue.
    #[value(name = "stream-4")]
    Stream4,
    /// The same with 32 in the queue.
    #[value(name = "stream-32")]
    Stream32,
}

impl Pattern {
    /// Messages that the queue of a stream holds.
    pub(crate) const fn stream_depth(self) -> Option<u32> {
        match self {
            Self::Stream4 => Some(4),
            Self::Stream32 => Some(32),
            _ => None,
        }
    }
}

/// One case: `system/wait/pattern`, and for [`Pattern::Fan`] to how many: `system/wait/fan-4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) system: System,
    pub(crate) wait: Wait,
    pub(crate) pattern: Pattern,
    /// More than one with [`Pattern::Fan`] only.
    pub(crate) subscribers: u32,
}

/// Subscribers of [`Pattern::Fan`], from the fewest to the most.
pub(crate) const FANS: [u32; 4] = [1, 2, 4, 8];

/// Systems that are compared stand next to each other: what disturbs one of them disturbs the
/// other.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for &pattern in Pattern::value_variants() {
        for &wait in Wait::value_variants() {
            for subscribers in FANS {
                let systems = System::value_variants().iter();
                let of_systems = systems.map(|&system| Case {
                    system,
                    wait,
                    pattern,
                    subscribers,
                });
                cases.extend(of_systems.filter(|case| case.makes_sense()));
            }
        }
    }
    cases
}

impl Case {
    /// There and back, between one publisher and one subscriber on each way.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        name.parse().expect("a case")
    }

    const fn makes_sense(self) -> bool {
        if self.subscribers != 1 && !matches!(self.pattern, Pattern::Fan) {
            return false;
        }
        match (self.pattern, self.wait) {
            (Pattern::Untouched | Pattern::Filled, _) => self.goes_there_and_back(),
            // Only hythe has both ways to compare.
            (Pattern::Request, Wait::Poll | Wait::Block) => matches!(self.system, System::Hythe),
            (_, Wait::Block | Wait::Adaptive) => false,
            (Pattern::Single, Wait::Poll) => match self.system {
                // Its shared memory has no back pressure.
                System::Cyclonedds => false,
                System::Openmpi | System::Mpich | System::Aeron => true,
                system => system.is_zero_copy(),
            },
            // Only hythe publishes several messages by one call.
            (Pattern::Batched, Wait::Poll) => {
                matches!(self.system, System::Hythe | System::Protocol)
            }
            // Whose slots are compared: the fewest that do, and those that hythe chooses.
            (Pattern::Stream4 | Pattern::Stream32, Wait::Poll) => {
                matches!(self.system, System::Hythe | System::Floor)
            }
            // The floor has one reader.
            (Pattern::Fan, Wait::Poll) => matches!(self.system, System::Hythe | System::Iceoryx2),
        }
    }

    const fn goes_there_and_back(self) -> bool {
        match (self.system, self.wait) {
            (System::Hythe, _) => true,
            // Only hythe has a mixed way of waiting.
            (_, Wait::Adaptive) => false,
            // Its rows say what messages cost, not what sleeping does.
            (System::Protocol, Wait::Block) => false,
            // A semaphore is slept on.
            (System::Sysv, Wait::Poll) => false,
            // Their programs look again and again.
            (system, Wait::Block) if system.is_outside() => false,
            // What copies touches the payload.
            (system, _) => system.is_zero_copy() || matches!(self.pattern, Pattern::Filled),
        }
    }

    /// Does a side keep its CPU busy while it waits?
    pub(crate) const fn spins(self) -> bool {
        matches!(self.wait, Wait::Poll)
    }
}

impl System {
    /// Does the payload stay where the sender wrote it?
    const fn is_zero_copy(self) -> bool {
        matches!(
            self,
            Self::Floor
                | Self::Protocol
                | Self::Hythe
                | Self::Iceoryx2
                | Self::Iceoryx
                | Self::Cyclonedds
        )
    }

    /// Measured by a program of its own, where it is installed.
    pub(crate) const fn is_outside(self) -> bool {
        matches!(
            self,
            Self::Openmpi | Self::Mpich | Self::Iceoryx | Self::Cyclonedds | Self::Aeron
        )
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, wait, pattern) = (self.system, self.wait, self.pattern);
        write!(out, "{}/{}/{}", word(system), word(wait), word(pattern))?;
        match pattern {
            Pattern::Fan => write!(out, "-{}", self.subscribers),
            _ => Ok(()),
        }
    }
}

/// The word for it on the command line, in cases and in ratios.
pub(crate) fn word(value: impl ValueEnum) -> String {
    let word = value.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('/');
        let mut next = || words.next().unwrap_or_default();
        let (system, wait, pattern) = (next(), next(), next());
        let (pattern, subscribers) = match Pattern::from_str(pattern, false) {
            Ok(pattern) => (pattern, "1"),
            Err(_) => {
                let (pattern, count) = pattern.split_once('-').unwrap_or((pattern, "1"));
                (Pattern::from_str(pattern, false)?, count)
            }
        };
        let case = Self {
            system: System::from_str(system, false)?,
            wait: Wait::from_str(wait, false)?,
            pattern,
            subscribers: subscribers
                .parse()
                .map_err(|_| format!("`{subscribers}` is no number"))?,
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
    fn case_survives_being_written() {
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
        assert!(names.contains(&"sysv/block/filled".to_owned()));
        assert!(names.contains(&"hythe/block/request".to_owned()));
        assert!(!names.contains(&"floor/poll/request".to_owned()));
        assert!(names.contains(&"protocol/poll/batched".to_owned()));
        assert!(!names.contains(&"protocol/block/untouched".to_owned()));
        assert!(names.contains(&"iceoryx2/poll/fan-8".to_owned()));
        assert!(names.contains(&"floor/poll/stream-32".to_owned()));
        assert!(!names.contains(&"hythe/block/stream-4".to_owned()));
        assert!(names.contains(&"aeron/poll/single".to_owned()));
        assert!(!names.contains(&"mpich/poll/untouched".to_owned()));
        assert!(!names.contains(&"iceoryx/block/untouched".to_owned()));
        assert!(!names.contains(&"sysv/poll/filled".to_owned()));
        assert!(!names.contains(&"unix/poll/untouched".to_owned()));
        assert!(!names.contains(&"floor/block/single".to_owned()));
    }
}
