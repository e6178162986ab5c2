//! What scenario `ipc` takes, and its other process.

use clap::Args;

use super::case::{Case, Pattern, System, Wait};
use crate::scale::{Defaults, Scale, ScaleArguments};

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct IpcArguments {
    #[command(flatten)]
    pub(crate) scale: ScaleArguments<{ 4 << 20 }>,
    /// Only cases whose name has one of these in it, such as `hythe/poll` or `join`
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only these systems
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) systems: Vec<System>,
    /// Only these ways of waiting
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) waits: Vec<Wait>,
    /// Only these patterns
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) patterns: Vec<Pattern>,
}

/// What is measured where nothing is said.
const FULL: Defaults<'_> = Defaults {
    count: 100_000,
    sizes: &[8, 64, 1024, 8192, 65_536, 1 << 20, 4 << 20],
    seconds: 60.0,
    rounds: 5,
};
/// The same with `--quick`.
const QUICK: Defaults<'_> = Defaults {
    count: 200,
    sizes: &[64, 65_536],
    seconds: 2.0,
    rounds: 1,
};

impl IpcArguments {
    pub(crate) fn scale(&self) -> Scale {
        let is_quick = self.scale.quick;
        self.scale.scale(if is_quick { &QUICK } else { &FULL })
    }

    /// Does `--only` let this case through?
    pub(crate) fn wants(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| case.contains(part.as_str()))
    }
}

/// What the other process is told.
#[derive(Debug, Args)]
pub(crate) struct EchoArguments {
    /// The case
    #[arg(long)]
    pub(crate) case: Case,
    /// Bytes of payload
    #[arg(long)]
    pub(crate) size: usize,
    /// Messages of a one-way run
    #[arg(long)]
    pub(crate) messages: u64,
    /// Where the two sides meet, in the system's own words: the pool's name, the numbers of segment
    /// and semaphores
    #[arg(long)]
    pub(crate) place: String,
    /// The CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
}
