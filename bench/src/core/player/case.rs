//! What is compared.

use std::fmt;

/// How `hythe play` gets a movie decoded: its `--method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// The core decodes; slots are filled and read in place.
    Hythe,
    /// The core decodes; everything crosses in fragments.
    Copy,
    /// A process of Linux decodes.
    Linux,
}

impl System {
    pub(super) const ALL: [Self; 3] = [Self::Hythe, Self::Copy, Self::Linux];

    /// Does a core decode?
    pub(super) const fn has_core(self) -> bool {
        match self {
            Self::Hythe | Self::Copy => true,
            Self::Linux => false,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hythe => "hythe",
            Self::Copy => "copy",
            Self::Linux => "linux",
        })
    }
}
