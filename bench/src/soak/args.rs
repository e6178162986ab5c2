//! What scenario `soak` takes, and each of its processes.

use clap::Args;

/// How long, with how many.
#[derive(Debug, Args)]
pub(crate) struct SoakArguments {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// Decides what happens to whom
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Processes at a time, at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = processes)]
    pub(crate) processes: usize,
}

/// What a process of a soak is told.
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    /// The pool
    #[arg(long)]
    pub(crate) pool: String,
    /// Decides what it does
    #[arg(long)]
    pub(crate) seed: u64,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.01..=10_080.0).contains(&minutes) {
        return Err("a time is 0.01 to 10080 minutes".to_owned());
    }
    Ok(minutes)
}

fn processes(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|error| format!("{error}"))?;
    if !(1..=64).contains(&count) {
        return Err("1 to 64 processes are possible".to_owned());
    }
    Ok(count)
}
