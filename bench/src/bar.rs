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

/// For people, behind a figure: what was wanted of it, and whether it fell short.
pub(crate) fn verdict(wanted: Option<Bar>, figure: f64) -> String {
    match wanted {
        None => String::new(),
        Some(bar) if bar.is_met_by(figure) => format!("  {bar}"),
        Some(bar) => format!("  {bar}: MISSED"),
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
