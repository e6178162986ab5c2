//! What scenario `host` takes, and its two ends.

use std::path::PathBuf;

use clap::Args;

use super::case::{Payload, Reach, System, Wait};
use crate::ipc::args::{seconds, size};

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct HostArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Every case, but briefly: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Round trips of each case in each round, unless its share of the time is over first [default:
    /// 20000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Payload sizes in bytes, multiples of 8 [default: 8,64,1024,8192,65536,1048576,4194304;
    /// quick: 64,65536]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Vec<usize>,
    /// Time to spend on the round trips, shared equally by all runs [default: 120; quick: 4]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// How often the whole set is repeated; figures are medians over these rounds [default: 5;
    /// quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
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
}

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    /// Samples of each case in each round, at most.
    pub(super) count: u64,
    pub(super) sizes: Vec<usize>,
    /// For all runs together.
    pub(super) seconds: f64,
    pub(super) rounds: u32,
}

impl HostArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(super) fn scale(&self) -> Scale {
        let (count, sizes, seconds, rounds): (_, &[usize], _, _) = if self.quick {
            (100, &[64, 65_536], 4.0, 1)
        } else {
            let sizes = &[8, 64, 1024, 8192, 65_536, 1 << 20, 4 << 20];
            (20_000, sizes, 120.0, 5)
        };
        let sizes = Some(self.sizes.clone())
            .filter(|said| !said.is_empty())
            .unwrap_or_else(|| sizes.to_vec());
        Scale {
            count: self.count.unwrap_or(count),
            sizes,
            seconds: self.seconds.unwrap_or(seconds),
            rounds: self.rounds.unwrap_or(rounds),
        }
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
