//! What scenario `pvm` takes, and its two ends.

use std::path::PathBuf;

use clap::Args;

use super::case::{Part, System};
use crate::scale::{Defaults, Scale, ScaleArguments};

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct PvmArguments {
    #[command(flatten)]
    pub(crate) scale: ScaleArguments<{ 4 << 20 }>,
    /// Only these systems
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) systems: Vec<System>,
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) parts: Vec<Part>,
    /// The folder of Hythe's libpvm3.so.3 and libgpvm3.so.3, for system `hythe`; else those that
    /// were built beside this program
    #[arg(long, value_name = "FOLDER")]
    pub(crate) library: Option<PathBuf>,
}

/// What is measured where nothing is said.
const FULL: Defaults<'_> = Defaults {
    count: 5_000,
    sizes: &[64, 1 << 20],
    seconds: 120.0,
    rounds: 5,
};
/// The same with `--quick`.
const QUICK: Defaults<'_> = Defaults {
    count: 50,
    sizes: &[64, 65_536],
    seconds: 4.0,
    rounds: 1,
};

impl PvmArguments {
    pub(super) fn scale(&self) -> Scale {
        let is_quick = self.scale.quick;
        self.scale.scale(if is_quick { &QUICK } else { &FULL })
    }
}

/// What an end of scenario pvm is told.
#[derive(Debug, Args)]
pub(crate) struct PvmEndArguments {
    /// Where both ends and their programs put their files
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// The folder of Hythe's libraries
    #[arg(long)]
    pub(crate) library: Option<PathBuf>,
    /// The CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
}
