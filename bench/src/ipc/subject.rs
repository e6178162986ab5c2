//! What a row of the result is about: an exchange of messages, a step of setting up, or a
//! footprint.

use std::fmt;

use super::case::{Case, Pattern};
use super::footprint::Footprint;
use super::setup::Step;

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Each on a CPU of its own.
    Apart,
    /// Both on one.
    Shared,
}

impl Placement {
    /// The CPUs of the near and the far side, of those that were chosen for the run.
    pub(super) const fn place(self, cpus: [usize; 2]) -> [usize; 2] {
        match self {
            Self::Apart => cpus,
            Self::Shared => [cpus[0]; 2],
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Messages between two processes.
    Exchange(Case, Placement),
    /// Before any message.
    Setup(Step),
    /// Without any message.
    Footprint(Footprint),
}

impl Subject {
    /// Of which metric its figures are, and their unit.
    pub(super) const fn metric(self) -> (&'static str, &'static str) {
        match self {
            Self::Setup(_) => ("duration", "ns"),
            Self::Footprint(footprint) => (footprint.metric(), "B"),
            Self::Exchange(case, _) => match case.pattern {
                Pattern::Untouched | Pattern::Filled | Pattern::Request => ("round_trip", "ns"),
                Pattern::Fan => ("publish", "ns"),
                Pattern::Single | Pattern::Batched | Pattern::Stream4 | Pattern::Stream32 => {
                    ("rate", "msg/s")
                }
            },
        }
    }

    pub(super) const fn placement(self) -> Placement {
        match self {
            Self::Exchange(_, placement) => placement,
            Self::Setup(_) | Self::Footprint(_) => Placement::Apart,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(case, _) => case.fmt(out),
            Self::Setup(step) => step.fmt(out),
            Self::Footprint(footprint) => footprint.fmt(out),
        }
    }
}
