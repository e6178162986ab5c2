//! What scenario `core` takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::case::{Payload, System, Wait};

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
const SIZE_MAX: usize = 1 << 20;

/// Which cases on which board, how often.
#[derive(Debug, Args)]
pub(crate) struct CoreArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Every case, but briefly: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// The board whose core is on the other side; `hythe core boards` lists them
    #[arg(long, value_name = "BOARD", default_value = "mps2-an386")]
    pub(crate) board: String,
    /// Round trips of each case in each round, unless its share of the time is over first [default:
    /// 20000; quick: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Payload sizes in bytes, multiples of 8 [default: 8 to 1048576 in the 16 steps of the paper;
    /// quick: 64,65536]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Vec<usize>,
    /// Time to spend on the round trips, shared equally by all runs [default: 120; quick: 2]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// How often the whole set is repeated; figures are medians over these rounds [default: 5;
    /// quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
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
        match self.quick {
            true => self.scale_of(&[64, 64 << 10]),
            false => self.scale_of(&SIZES),
        }
    }

    /// The same with other sizes, where none are said.
    pub(super) fn scale_of(&self, sizes: &[usize]) -> Scale {
        let (count, seconds) = match self.quick {
            true => (50, 2.0),
            false => (20_000, 120.0),
        };
        let mut sizes = Some(self.sizes.clone())
            .filter(|said| !said.is_empty())
            .unwrap_or_else(|| sizes.to_vec());
        sizes.sort_unstable();
        sizes.dedup();
        Scale {
            count: self.count.unwrap_or(count),
            sizes,
            seconds: self.seconds.unwrap_or(seconds),
            rounds: self.rounds(),
        }
    }

    /// How often the whole set is repeated.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }
}

fn size(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > SIZE_MAX {
        return Err(format!("a size is a multiple of 8 from 8 to {SIZE_MAX}"));
    }
    Ok(bytes)
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("a time is 0.001 to 86400 seconds".to_owned());
    }
    Ok(seconds)
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
    fn the_default_is_the_papers_table_and_quick_is_not() {
        let full = scale(&[]);
        assert_eq!((full.sizes.len(), full.rounds), (16, 5));
        assert!(full.sizes.iter().all(|&bytes| bytes.is_power_of_two()));
        assert_eq!(scale(&["--quick"]).sizes, [64, 65_536]);
        assert_eq!(scale(&["--quick", "--sizes", "8,8"]).sizes, [8]);
    }

    #[test]
    fn odd_sizes_and_times_are_refused() {
        for text in ["0", "7", "12", "1048584", "many"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(size("1048576"), Ok(1 << 20));
        for text in ["0", "-1", "nan"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
