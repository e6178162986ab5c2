//! A bound that the project wants a figure to keep. Which figures have one: `bars` of each
//! scenario.

use std::fmt;

/// A bound that a figure should keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// Smaller is better.
    AtMost(f64),
    /// Larger is better.
    AtLeast(f64),
}

use Bar::{AtLeast, AtMost};

impl Bar {
    /// Does a figure keep it?
    pub(crate) fn is_met_by(self, value: f64) -> bool {
        match self {
            AtMost(bound) => value <= bound,
            AtLeast(bound) => value >= bound,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtMost(bound) => write!(out, "at most {bound}"),
            AtLeast(bound) => write!(out, "at least {bound}"),
        }
    }
}
