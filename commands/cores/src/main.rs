//! `hythe-core`: what `hythe core` becomes.

use std::process::ExitCode;

use clap::Subcommand as _;
use hythe_command::CommandLine;
use hythe_command::commands::CORE;
use hythe_core_command::CoreCommand;

fn main() -> ExitCode {
    ExitCode::from(
        CommandLine::of(&CORE, CoreCommand::augment_subcommands).main(hythe_core_command::run),
    )
}
