//! `hythe-report`: what `hythe report` becomes.

use std::process::ExitCode;

use clap::Args as _;
use hythe_command::CommandLine;
use hythe_command::commands::REPORT;
use hythe_report::command::{ReportArgs, run};

fn main() -> ExitCode {
    ExitCode::from(
        CommandLine::of(&REPORT, ReportArgs::augment_args)
            .main(|args: ReportArgs, globals| run(&args, globals)),
    )
}
