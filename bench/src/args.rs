//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::ipc::{Case, Pattern, System, Wait};

/// Measures hops beside their floor and their peers, in one run.
#[derive(Debug, Parser)]
#[command(name = "hythe-bench", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Between two processes of this machine.
    #[command(
        after_help = "Example:\n  hythe-bench ipc --json --sizes 64,65536 > ipc.json\n\nExit codes: 0 done, 1 failed or not valid, 2 wrong use."
    )]
    Ipc(IpcArguments),
    /// The other process of a run.
    #[command(hide = true)]
    Echo(EchoArguments),
}

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct IpcArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Round trips of each case in each round, unless its share of the time is over first
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,
    /// Payload sizes in bytes, multiples of 8
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size,
        default_values_t = [8, 64, 1024, 8192, 65536, 1_048_576])]
    pub(crate) sizes: Vec<usize>,
    /// Time to spend on the round trips, shared equally by all runs
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// How often the whole set is repeated; figures are medians over these rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
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
    /// The pool, for systems that need one
    #[arg(long)]
    pub(crate) pool: String,
    /// The CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
}

fn size(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > 4 << 20 {
        return Err("a size is a multiple of 8 from 8 to 4194304".to_owned());
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

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

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
