//! The other process: this program again, which writes what we read.

use clap::Args;

use super::super::other_process::OtherProcess;
use super::Run;
use super::meeting::Meeting;
use super::payload::Payload;
use crate::cpus;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// What it is told.
#[derive(Debug, Args)]
pub(crate) struct WriterArguments {
    /// Where segment and semaphores are, in their system's own words
    #[arg(long)]
    place: String,
    /// Bytes of each message
    #[arg(long)]
    size: usize,
    /// What they are
    #[arg(long, value_enum)]
    payload: Payload,
    /// How many
    #[arg(long)]
    messages: u64,
    /// The CPU to run on
    #[arg(long)]
    cpu: usize,
}

/// Writes all messages.
pub(crate) fn write(arguments: &WriterArguments) -> Result<(), BenchError> {
    cpus::pin(arguments.cpu)?;
    let mut meeting = Meeting::attach(&arguments.place, arguments.size, arguments.payload)?;
    let lookout = Lookout::default();
    for number in 0..arguments.messages {
        meeting.write(number, &lookout)?;
    }
    Ok(())
}

/// Starts it.
pub(super) fn start(run: &Run, place: &str, cpu: usize) -> Result<OtherProcess, BenchError> {
    let words = [
        ("--place", place.to_owned()),
        ("--size", run.size.to_string()),
        ("--payload", run.payload.to_string()),
        ("--messages", run.messages.to_string()),
        ("--cpu", cpu.to_string()),
    ];
    let words = words
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    let words: Vec<String> = std::iter::once("pair-writer".to_owned())
        .chain(words)
        .collect();
    OtherProcess::start(&words)
}
