//! What scenario `wait_set` takes.

use clap::Args;

/// How many channels, how often.
#[derive(Debug, Args)]
pub(crate) struct WaitSetArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Messages of each case in each round
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) count: u64,
    /// How often the whole set is repeated; figures are medians over these rounds
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub(crate) rounds: u32,
    /// Numbers of attached channels
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        value_parser = channels,
        default_values_t = [1, 64, 1024]
    )]
    pub(crate) channels: Vec<usize>,
}

fn channels(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|error| format!("{error}"))?;
    if !(1..=2000).contains(&count) {
        return Err("a number of channels is 1 to 2000".to_owned());
    }
    Ok(count)
}
