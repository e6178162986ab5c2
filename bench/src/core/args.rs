//! What scenario `core` takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::case::{Payload, System, Wait};
use crate::scale::{Defaults, Scale, ScaleArguments};

/// Of table P1 in the project's first paper.
const SIZES: [usize; 16] = [
    8,
    16,
    32,
    64,
    128,
    256,
    512,
    1 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
];

/// Which cases on which board, how often.
#[derive(Debug, Args)]
pub(crate) struct CoreArguments {
    #[command(flatten)]
    pub(crate) scale: ScaleArguments<{ 1 << 20 }>,
    /// The board whose core is on the other side; `hythe core boards` lists them
    #[arg(long, value_name = "BOARD", default_value = "mps2-an386")]
    pub(crate) board: String,
    /// Measure 1, 2, 4 and 8 Linux ports on one channel as well, and two cores at once
    #[arg(long)]
    pub(crate) shared: bool,
    /// In place of all that: two processes that share a segment and a semaphore, on one CPU and on
    /// two, and what page faults and the TLB cost
    #[arg(long, conflicts_with_all = ["shared", "systems", "waits", "payloads", "count"])]
    pub(crate) pair: bool,
    /// In place of all that: what semaphores, message queues, calls and segments cost beside a bare
    /// ping, and the kernel's own beside them
    #[arg(long, conflicts_with_all = ["pair", "shared", "systems", "waits", "payloads", "sizes"])]
    pub(crate) services: bool,
    /// In place of all that: the player (`hythe play`) with each of its methods, beside each other.
    /// FILE is the movie [default: the one that `make setup` encodes]
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = [
        "pair", "services", "shared", "systems", "waits", "payloads", "sizes", "count", "seconds",
    ])]
    pub(crate) player: Option<Option<PathBuf>>,
    /// Only these systems
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) systems: Vec<System>,
    /// Only these ways of waiting
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) waits: Vec<Wait>,
    /// Only these payloads
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) payloads: Vec<Payload>,
}

/// Of all time, for what is shared.
const SHARED_PART: f64 = 0.25;

impl Scale {
    /// For each of so many, in each round.
    pub(super) fn shared_time(&self, count: usize) -> Duration {
        let runs = count as f64 * f64::from(self.rounds);
        Duration::from_secs_f64(self.seconds * SHARED_PART / runs)
    }
}

impl CoreArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(super) fn scale(&self) -> Scale {
        match self.scale.quick {
            true => self.scale_of(&[64, 64 << 10]),
            false => self.scale_of(&SIZES),
        }
    }

    /// The same with other sizes, where none are said.
    pub(super) fn scale_of(&self, sizes: &[usize]) -> Scale {
        let (count, seconds, rounds) = match self.scale.quick {
            true => (50, 2.0, 1),
            false => (20_000, 120.0, 5),
        };
        self.scale.scale(&Defaults {
            count,
            sizes,
            seconds,
            rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn scale(more: &[&str]) -> Scale {
        let command = CoreArguments::augment_args(Command::new("core"));
        let matches = command.get_matches_from(["core"].iter().chain(more));
        let arguments = CoreArguments::from_arg_matches(&matches).expect("parsed");
        arguments.scale()
    }

    #[test]
    fn default_is_the_papers_table_and_quick_is_not() {
        let full = scale(&[]);
        assert_eq!((full.sizes.len(), full.rounds), (16, 5));
        assert!(full.sizes.iter().all(|&bytes| bytes.is_power_of_two()));
        assert_eq!(scale(&["--quick"]).sizes, [64, 65_536]);
        assert_eq!(scale(&["--quick", "--sizes", "8,8"]).sizes, [8]);
    }
}
