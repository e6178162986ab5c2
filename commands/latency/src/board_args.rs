//! What `hythe latency board` takes.

use std::time::Duration;

use clap::{Args, ValueEnum};
use hythe_command::units;
use hythe_latency::xen::{Load, Partition};

use super::output::OutputArgs;
use super::xen_args::XenArgs;

/// Which board, and how.
#[derive(Args, Debug)]
pub struct BoardArgs {
    /// The board
    pub(super) board: String,
    /// What the core runs under: nothing; Xen, beside Linux on the same CPU; Xen, beside Linux with
    /// a CPU each (the core's is a pool of its own with nothing to schedule)
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(super) under: Under,
    /// What Linux does beside it: sleep, compute, or read a disk
    #[arg(long, value_name = "LOAD", default_value = "idle")]
    pub(super) load: LoadArg,
    /// Clock: counted instructions, which are the same in every run, or the host's clock, with one
    /// host CPU for each CPU of the board
    #[arg(long, value_name = "CLOCK", default_value = "instructions")]
    pub(super) clock: ClockArg,
    #[command(flatten)]
    pub(super) xen: XenArgs,
    /// Time limit of the measurement
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "300")]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Under {
    None,
    XenShared,
    XenPartitioned,
}

impl Under {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::XenShared => "xen-shared",
            Self::XenPartitioned => "xen-partitioned",
        }
    }

    pub(super) const fn partition(self) -> Option<Partition> {
        match self {
            Self::None => None,
            Self::XenShared => Some(Partition::Shared),
            Self::XenPartitioned => Some(Partition::Partitioned),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadArg {
    Idle,
    Hog,
    Io,
}

impl LoadArg {
    pub(super) const fn load(self) -> Load {
        match self {
            Self::Idle => Load::Idle,
            Self::Hog => Load::Hog,
            Self::Io => Load::Io,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ClockArg {
    Instructions,
    Host,
}
