//! `hythe-latency`: what `hythe latency` becomes.

use std::process::ExitCode;

use clap::Subcommand as _;
use hythe_command::CommandLine;
use hythe_command::commands::LATENCY;
use hythe_latency_command::LatencyCommand;

fn main() -> ExitCode {
    ExitCode::from(
        CommandLine::of(&LATENCY, LatencyCommand::augment_subcommands)
            .main(hythe_latency_command::run),
    )
}
