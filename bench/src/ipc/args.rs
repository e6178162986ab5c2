//! What scenario `ipc` takes, and its other process.

use clap::Args;

use super::case::{Case, Pattern, System, Wait};

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct IpcArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Every case, but briefly: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Round trips of each case in each round, unless its share of the time is over first [default:
    /// 100000; quick: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Payload sizes in bytes, multiples of 8 [default: 8,64,1024,8192,65536,1048576,4194304;
    /// quick: 64,65536]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Vec<usize>,
    /// Time to spend on the round trips, shared equally by all runs [default: 60; quick: 2]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// How often the whole set is repeated; figures are medians over these rounds [default: 5;
    /// quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
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

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Samples of each case in each round, at most.
    pub(crate) count: u64,
    pub(crate) sizes: Vec<usize>,
    /// For all runs together.
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
}

impl IpcArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(crate) fn scale(&self) -> Scale {
        let (count, sizes, seconds, rounds): (_, &[usize], _, _) = if self.quick {
            (200, &[64, 65_536], 2.0, 1)
        } else {
            let sizes = &[8, 64, 1024, 8192, 65_536, 1 << 20, 4 << 20];
            (100_000, sizes, 60.0, 5)
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

/// Of a payload.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > 4 << 20 {
        return Err("a size is a multiple of 8 from 8 to 4194304".to_owned());
    }
    Ok(bytes)
}

/// For a run.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("a time is 0.001 to 86400 seconds".to_owned());
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_sizes_and_times_are_refused() {
        for text in ["0", "7", "12", "4194312", "many"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(size("4194304"), Ok(4 << 20));
        for text in ["0", "-1", "nan", "inf"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
