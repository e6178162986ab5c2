//! What scenario `host` takes, and its two ends.

use std::path::PathBuf;

use clap::Args;

use super::case::{Payload, Reach, System, Wait};
use crate::scale::{Defaults, Scale, ScaleArguments};

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct HostArguments {
    #[command(flatten)]
    pub(crate) scale: ScaleArguments<{ 4 << 20 }>,
    /// Only these systems
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) systems: Vec<System>,
    /// Only within one host, or between two
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) reaches: Vec<Reach>,
    /// Only these ways of waiting
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) waits: Vec<Wait>,
    /// Only these payloads
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) payloads: Vec<Payload>,
    /// Count allocations and system calls of each message, too, where tasks send themselves: behind
    /// the last round, by perf
    #[arg(long)]
    pub(crate) calls: bool,
}

/// What is measured where nothing is said.
const FULL: Defaults<'_> = Defaults {
    count: 20_000,
    sizes: &[8, 64, 1024, 8192, 65_536, 1 << 20, 4 << 20],
    seconds: 120.0,
    rounds: 5,
};
/// The same with `--quick`.
const QUICK: Defaults<'_> = Defaults {
    count: 100,
    sizes: &[64, 65_536],
    seconds: 4.0,
    rounds: 1,
};

impl HostArguments {
    pub(super) fn scale(&self) -> Scale {
        let is_quick = self.scale.quick;
        self.scale.scale(if is_quick { &QUICK } else { &FULL })
    }
}

/// What an end of scenario host is told.
#[derive(Debug, Args)]
pub(crate) struct HostEndArguments {
    /// Where both ends and their programs put their files
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// The CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
}
