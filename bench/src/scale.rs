//! How much a scenario of round trips measures: what `ipc`, `core` and `host` all take.
//!
//! What an argument means where it is not given is the scenario's own. Never measures.

use clap::Args;

/// How often which sizes, and how it is printed. `SIZE_MAX`: the scenario's largest payload.
#[derive(Debug, Args)]
pub(crate) struct ScaleArguments<const SIZE_MAX: usize> {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Every case, but briefly: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Round trips of each case in each round, unless its share of the time is over first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Payload sizes in bytes, multiples of 8
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size::<SIZE_MAX>)]
    sizes: Vec<usize>,
    /// Time to spend on the round trips, shared equally by all runs
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// How often the whole set is repeated; figures are medians over these rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// What is measured where nothing is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults<'a> {
    pub(crate) count: u64,
    pub(crate) sizes: &'a [usize],
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
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

impl<const SIZE_MAX: usize> ScaleArguments<SIZE_MAX> {
    /// What was said, and for the rest the defaults; each size once, from the smallest on.
    pub(crate) fn scale(&self, defaults: &Defaults<'_>) -> Scale {
        let mut sizes = match self.sizes.is_empty() {
            true => defaults.sizes.to_vec(),
            false => self.sizes.clone(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        Scale {
            count: self.count.unwrap_or(defaults.count),
            sizes,
            seconds: self.seconds.unwrap_or(defaults.seconds),
            rounds: self.rounds.unwrap_or(defaults.rounds),
        }
    }
}

/// Of a payload.
fn size<const MAX: usize>(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > MAX {
        return Err(format!("a size is a multiple of 8 from 8 to {MAX}"));
    }
    Ok(bytes)
}

/// For a run.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("a time is 0.001 to 86400 seconds".to_owned());
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn scale(words: &[&str]) -> Scale {
        let command = ScaleArguments::<4096>::augment_args(Command::new("bench"));
        let matches = command.get_matches_from(["bench"].iter().chain(words));
        let arguments = ScaleArguments::<4096>::from_arg_matches(&matches).expect("parsed");
        arguments.scale(&Defaults {
            count: 5,
            sizes: &[64, 8],
            seconds: 2.0,
            rounds: 1,
        })
    }

    #[test]
    fn what_is_said_goes_before_the_defaults() {
        let (count, seconds) = (5, 2.0);
        let expected = |sizes: &[usize], rounds| Scale {
            count,
            sizes: sizes.to_vec(),
            seconds,
            rounds,
        };
        assert_eq!(scale(&[]), expected(&[8, 64], 1));
        let said = scale(&["--sizes", "16,8,16", "--rounds", "3"]);
        assert_eq!(said, expected(&[8, 16], 3));
    }

    #[test]
    fn odd_sizes_and_times_are_refused() {
        for text in ["0", "7", "12", "4104", "many"] {
            assert!(size::<4096>(text).is_err(), "{text}");
        }
        assert_eq!(size::<4096>("4096"), Ok(4096));
        for text in ["0", "-1", "nan", "inf"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
