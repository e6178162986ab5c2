//! The other process of a service: this program again, which answers until it is asked to end.

use std::io::Write;

use clap::Args;

use super::super::other_process::OtherProcess;
use super::case::Case;
use super::end::Side;
use super::open;
use crate::cpus;
use crate::error::BenchError;
use crate::lookout::Lookout;

/// What it is told.
#[derive(Debug, Args)]
pub(crate) struct ServiceArguments {
    /// Which service of whom: system/wait/service
    #[arg(long)]
    case: String,
    /// Bytes of each message
    #[arg(long)]
    size: usize,
    /// Where the other end is, in the system's own words
    #[arg(long)]
    place: String,
    /// The CPU to run on
    #[arg(long)]
    cpu: usize,
}

/// Answers each message with one.
pub(crate) fn answer(arguments: &ServiceArguments) -> Result<(), BenchError> {
    let lookout = Lookout::on_signals()?;
    cpus::pin(arguments.cpu)?;
    let case = Case {
        size: arguments.size,
        ..arguments.case.parse()?
    };
    let mut end = open::open(case, Side::Far, &arguments.place)?;
    std::io::stdout().write_all(b".")?;
    std::io::stdout().flush()?;
    for number in 0.. {
        match end.receive(number, &lookout) {
            Err(BenchError::Stopped) => break,
            received => received?,
        }
        end.send(number)?;
    }
    Ok(())
}

/// Starts it, and waits until its end is open.
pub(super) fn start(case: Case, place: &str, cpu: usize) -> Result<OtherProcess, BenchError> {
    let words = [
        "service-peer".to_owned(),
        "--case".to_owned(),
        case.to_string(),
        "--size".to_owned(),
        case.size.to_string(),
        "--place".to_owned(),
        place.to_owned(),
        "--cpu".to_owned(),
        cpu.to_string(),
    ];
    let mut process = OtherProcess::start(&words)?;
    process.wait_until_ready()?;
    Ok(process)
}
